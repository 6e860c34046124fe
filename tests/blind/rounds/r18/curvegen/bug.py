"""DDPM on short curves (daily load shapes: a morning and an evening bump on a base). Samples come from the EMA copy."""
import copy
import math
import torch
from torch import nn

torch.manual_seed(2)
L, T = 32, 60


def load_curves(n):
    t = torch.linspace(0, 24, L)
    base = 0.3 + 0.1 * torch.rand(n, 1)
    m = (0.5 + 0.4 * torch.rand(n, 1)) * torch.exp(-((t - (7.5 + torch.randn(n, 1) * 0.6)) / 1.8) ** 2)
    e = (0.8 + 0.5 * torch.rand(n, 1)) * torch.exp(-((t - (19 + torch.randn(n, 1) * 0.8)) / 2.4) ** 2)
    return (base + m + e + 0.02 * torch.randn(n, L)) * 2 - 1


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.f = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.SiLU(), nn.Linear(d, d))

    def forward(self, h, emb):
        return h + self.f(h + emb)


class Denoiser(nn.Module):
    def __init__(self, d=96):
        super().__init__()
        self.freq = nn.Buffer(torch.exp(torch.linspace(0, math.log(500.0), 16)))
        self.temb = nn.Sequential(nn.Linear(32, d), nn.SiLU(), nn.Linear(d, d))
        self.inp = nn.Linear(L, d)
        self.blocks = nn.ModuleList(Block(d) for _ in range(3))
        self.out = nn.Linear(d, L)

    def forward(self, x, t):
        a = (t.float() / T)[:, None] * self.freq
        emb = self.temb(torch.cat([a.sin(), a.cos()], 1))
        h = self.inp(x)
        for b in self.blocks:
            h = b(h, emb)
        return self.out(h)


class Ema:
    def __init__(self, net, decay):
        self.decay = decay
        self.net = copy.deepcopy(net).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self, net):
        for p, q in zip(self.net.parameters(), net.parameters()):
            p.lerp_(q, 1 - self.decay)


betas = torch.linspace(1e-3, 0.14, T)
alphas = 1 - betas
abar = torch.cumprod(alphas, 0)


@torch.no_grad()
def sample(net, n):
    x = torch.randn(n, L)
    for i in reversed(range(T)):
        eps = net(x, torch.full((n,), i))
        x = (x - betas[i] / (1 - abar[i]).sqrt() * eps) / alphas[i].sqrt()
        if i > 0:
            var = betas[i] * (1 - abar[i - 1]) / (1 - abar[i])
            x = x + var.sqrt() * torch.randn(n, L)
    return x


def energy_distance(a, b):
    return (2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()).item()


data, held = load_curves(4000), load_curves(800)
net = Denoiser()
ema = Ema(net, decay=0.9999)
opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
STEPS = 800
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS)
avg = 0.0
for step in range(1, STEPS + 1):
    x0 = data[torch.randint(len(data), (96,))]
    t = torch.randint(T, (96,))
    eps = torch.randn_like(x0)
    xt = abar[t].sqrt()[:, None] * x0 + (1 - abar[t]).sqrt()[:, None] * eps
    loss = ((net(xt, t) - eps) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    ema.update(net)
    avg += loss.item()
    if step % 200 == 0:
        print(f"step {step} loss {avg / 200:.4f}")
        avg = 0.0
gen = sample(ema.net, 800)
print(f"energy distance of the samples to held-out curves: {energy_distance(gen, held):.4f}")
