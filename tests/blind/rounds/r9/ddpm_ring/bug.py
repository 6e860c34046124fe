"""Tiny DDPM on a two-dimensional ring density."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(7)

T = 60
EPOCHS = 35
BATCH = 256
EMA_DECAY = 0.995


def make_points(n, gen):
    ang = torch.rand(n, generator=gen) * 2 * math.pi
    ring = 1.5 * torch.stack([ang.cos(), ang.sin()], 1)
    return ring + 0.12 * torch.randn(n, 2, generator=gen)


class Diffusion:
    def __init__(self, steps):
        self.steps = steps
        self.beta = torch.linspace(1e-3, 0.2, steps)
        self.alpha = 1 - self.beta
        self.abar = torch.cumprod(self.alpha, 0)

    def q_sample(self, x0, t, noise):
        a = self.abar[t].unsqueeze(1)
        return a.sqrt() * x0 + (1 - a).sqrt() * noise

    @torch.no_grad()
    def sample(self, model, n, gen):
        x = torch.randn(n, 2, generator=gen)
        for i in reversed(range(self.steps)):
            t = torch.full((n,), i, dtype=torch.long)
            eps = model(x, t)
            mean = (x - self.beta[i] / (1 - self.abar[i]).sqrt() * eps) / self.alpha[i].sqrt()
            x = mean + self.beta[i].sqrt() * torch.randn(n, 2, generator=gen) if i > 0 else mean
        return x


class Denoiser(nn.Module):
    def __init__(self, width=80, n_freq=5):
        super().__init__()
        self.register_buffer("freq", math.pi * 2.0 ** torch.arange(n_freq) / 4)
        self.t_mlp = nn.Sequential(nn.Linear(2 * n_freq, width), nn.SiLU(), nn.Linear(width, width))
        self.inp = nn.Linear(2, width)
        self.h1 = nn.Linear(width, width)
        self.h2 = nn.Linear(width, width)
        self.out = nn.Linear(width, 2)

    def forward(self, x, t):
        pos = (t // T).unsqueeze(1) * self.freq
        emb = self.t_mlp(torch.cat([pos.sin(), pos.cos()], 1))
        h = F.silu(self.inp(x) + emb)
        h = h + F.silu(self.h1(h) + emb)
        h = h + F.silu(self.h2(h) + emb)
        return self.out(h)


@torch.no_grad()
def update_ema(ema, model, decay):
    for e, p in zip(ema.parameters(), model.parameters()):
        e.lerp_(p, 1 - decay)


@torch.no_grad()
def val_loss(model, diff, x):
    gen = torch.Generator().manual_seed(99)
    t = torch.randint(0, T, (len(x),), generator=gen)
    noise = torch.randn(x.shape, generator=gen)
    return F.mse_loss(model(diff.q_sample(x, t, noise), t), noise).item()


def energy_distance(a, b):
    off = lambda d: d.sum() / (len(d) * (len(d) - 1))
    return (2 * torch.cdist(a, b).mean() - off(torch.cdist(a, a)) - off(torch.cdist(b, b))).item()


gen = torch.Generator().manual_seed(1)
train_x, val_x = make_points(4096, gen), make_points(1024, gen)
loader = DataLoader(TensorDataset(train_x), batch_size=BATCH, shuffle=True, drop_last=True)
diff = Diffusion(T)
model = Denoiser()
ema = copy.deepcopy(model).requires_grad_(False).eval()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)

for epoch in range(1, EPOCHS + 1):
    total = 0.0
    for (x0,) in loader:
        t = torch.randint(0, T, (len(x0),))
        noise = torch.randn_like(x0)
        loss = F.mse_loss(model(diff.q_sample(x0, t, noise), t), noise)
        opt.zero_grad()
        loss.backward()
        opt.step()
        update_ema(ema, model, EMA_DECAY)
        total += loss.item()
    if epoch % 5 == 0:
        print(f"epoch {epoch:3d}  train mse {total / len(loader):.4f}  val mse (ema) {val_loss(ema, diff, val_x):.4f}")

samples = diff.sample(ema, 1024, torch.Generator().manual_seed(5))
r = samples.norm(dim=1)
print(f"energy distance to held-out points: {energy_distance(samples, val_x):.4f}")
print(f"share of samples on the ring: {((r - 1.5).abs() < 0.35).float().mean():.3f}")
