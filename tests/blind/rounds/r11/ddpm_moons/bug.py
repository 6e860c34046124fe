"""DDPM on two moons with a small MLP noise predictor."""
import math

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
STEPS = 60
betas = torch.linspace(1e-3, 0.12, STEPS)
alphas = 1.0 - betas
abar = torch.cumprod(alphas, 0)


def two_moons(n, seed):
    r = np.random.default_rng(seed)
    a = r.uniform(0, math.pi, n)
    upper = r.random(n) < 0.5
    x = np.where(upper, np.cos(a), 1 - np.cos(a))
    y = np.where(upper, np.sin(a), 0.5 - np.sin(a))
    pts = np.stack([x, y], 1) + r.normal(0, 0.06, (n, 2))
    return torch.tensor((pts - [0.5, 0.25]) / [0.87, 0.5], dtype=torch.float32)


def time_features(t, dim=32):
    freq = torch.exp(-math.log(1000.0) * torch.arange(dim // 2) / (dim // 2))
    ang = t.float()[:, None] * freq[None]
    return torch.cat([ang.sin(), ang.cos()], 1)


class Denoiser(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.inp = nn.Linear(2 + 32, width)
        self.mid = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
        self.out = nn.Linear(width, 2)

    def forward(self, x, t):
        h = F.silu(self.inp(torch.cat([x, time_features(t)], 1)))
        for layer in self.mid:
            h = h + F.silu(layer(h))
        return self.out(h)


def q_sample(x0, t, noise):
    return abar[t].sqrt()[:, None] * x0 + (1 - abar[t]).sqrt()[:, None] * noise


def diffusion_loss(model, x0):
    t = torch.randint(0, STEPS, (len(x0),))
    noise = torch.rand_like(x0)
    return F.mse_loss(model(q_sample(x0, t, noise), t), noise)


@torch.no_grad()
def sample(model, n):
    x = torch.randn(n, 2)
    for i in reversed(range(STEPS)):
        t = torch.full((n,), i)
        eps = model(x, t)
        x = (x - betas[i] / (1 - abar[i]).sqrt() * eps) / alphas[i].sqrt()
        if i > 0:
            x = x + betas[i].sqrt() * torch.randn_like(x)
    return x


def sliced_wasserstein(a, b, n_proj=64):
    g = torch.Generator().manual_seed(4)
    v = F.normalize(torch.randn(2, n_proj, generator=g), dim=0)
    return ((a @ v).sort(0).values - (b @ v).sort(0).values).abs().mean().item()


train, held = two_moons(8000, 1), two_moons(2000, 2)
net = Denoiser()
shadow = Denoiser()
shadow.load_state_dict(net.state_dict())
opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
n_iter = 3000
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, n_iter)
running = 0.0
for it in range(1, n_iter + 1):
    batch = train[torch.randint(0, len(train), (128,))]
    loss = diffusion_loss(net, batch)
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    with torch.no_grad():
        for s, p in zip(shadow.parameters(), net.parameters()):
            s.lerp_(p, 0.01)
    running += loss.item()
    if it % 500 == 0:
        print(f"iter {it} loss {running / 500:.4f}")
        running = 0.0
shadow.eval()
print(f"sliced wasserstein to held-out {sliced_wasserstein(sample(shadow, 2000), held):.4f}")
