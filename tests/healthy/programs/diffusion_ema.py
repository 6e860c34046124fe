"""A small DDPM on two-dimensional points: noise prediction, time embedding, EMA copy for sampling."""

import copy
import math

import torch
from torch import nn

STEPS = 50
torch.manual_seed(1)


def two_moons(count):
    angle = torch.rand(count) * math.pi
    upper = torch.rand(count) < 0.5
    x = torch.where(upper, angle.cos(), 1 - angle.cos())
    y = torch.where(upper, angle.sin(), 0.5 - angle.sin())
    return torch.stack([x, y], 1) + 0.05 * torch.randn(count, 2)


class TimeEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, t):
        half = self.dim // 2
        freqs = torch.exp(-math.log(10000) * torch.arange(half, device=t.device) / half)
        args = t[:, None].float() * freqs[None]
        return torch.cat([args.sin(), args.cos()], dim=-1)


class Block(nn.Module):
    def __init__(self, dim, time_dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.time = nn.Linear(time_dim, dim)
        self.up = nn.Linear(dim, dim * 2)
        self.down = nn.Linear(dim * 2, dim)
        nn.init.zeros_(self.down.weight)
        nn.init.zeros_(self.down.bias)

    def forward(self, x, emb):
        h = self.norm(x) + self.time(emb)
        return x + self.down(torch.nn.functional.silu(self.up(h)))


class Denoiser(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.embed = nn.Sequential(TimeEmbedding(32), nn.Linear(32, 64), nn.SiLU())
        self.inp = nn.Linear(2, dim)
        self.blocks = nn.ModuleList([Block(dim, 64) for _ in range(3)])
        self.out = nn.Linear(dim, 2)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, x, t):
        emb = self.embed(t)
        h = self.inp(x)
        for block in self.blocks:
            h = block(h, emb)
        return self.out(h)


class EMA:
    def __init__(self, model, decay=0.95):
        self.decay = decay
        self.shadow = copy.deepcopy(model).eval()
        for p in self.shadow.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for s, p in zip(self.shadow.parameters(), model.parameters(), strict=True):
            s.mul_(self.decay).add_(p, alpha=1 - self.decay)


betas = torch.linspace(1e-4, 0.05, STEPS)
alphas = 1 - betas
alpha_bar = torch.cumprod(alphas, 0)


@torch.no_grad()
def sample(model, count):
    x = torch.randn(count, 2)
    for i in reversed(range(STEPS)):
        t = torch.full((count,), i, dtype=torch.long)
        eps = model(x, t)
        x = (x - betas[i] / (1 - alpha_bar[i]).sqrt() * eps) / alphas[i].sqrt()
        if i > 0:
            x = x + betas[i].sqrt() * torch.randn_like(x)
    return x


model = Denoiser()
ema = EMA(model)
opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
data = two_moons(2048)
for step in range(120):
    x0 = data[torch.randint(0, len(data), (128,))]
    t = torch.randint(0, STEPS, (len(x0),))
    noise = torch.randn_like(x0)
    ab = alpha_bar[t].unsqueeze(1)
    xt = ab.sqrt() * x0 + (1 - ab).sqrt() * noise
    loss = nn.functional.mse_loss(model(xt, t), noise)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    ema.update(model)
    if (step + 1) % 40 == 0:
        points = sample(ema.shadow, 64)
        print(f"step {step + 1} loss {loss.item():.3f} spread {points.std():.3f}")
