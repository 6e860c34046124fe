import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Cfg:
    z: int = 4
    hidden: int = 64
    batch: int = 128
    steps: int = 1000
    lr_g: float = 1e-3
    lr_d: float = 2e-3
    seed: int = 5


def heart(n, gen=None):
    """Points along a heart-shaped outline, roughly unit size."""
    t = torch.rand(n, generator=gen) * 2 * math.pi
    x = 16 * torch.sin(t) ** 3
    y = 13 * torch.cos(t) - 5 * torch.cos(2 * t) - 2 * torch.cos(3 * t) - torch.cos(4 * t)
    p = torch.stack([x, y + 2.0], 1) / 12
    return p + 0.03 * torch.randn(p.shape, generator=gen)


def block(i, h, o, act):
    return nn.Sequential(nn.Linear(i, h), act(), nn.Linear(h, h), act(), nn.Linear(h, o))


def sliced_distance(a, b, n_dir=60):
    ang = torch.arange(n_dir) * math.pi / n_dir
    d = torch.stack([ang.cos(), ang.sin()])
    return ((a @ d).sort(0).values - (b @ d).sort(0).values).abs().mean().item()


cfg = Cfg()
torch.manual_seed(cfg.seed)
G = block(cfg.z, cfg.hidden, 2, nn.ReLU)
D = block(2, cfg.hidden, 1, lambda: nn.LeakyReLU(0.2))
opt_g = torch.optim.Adam(G.parameters(), lr=cfg.lr_g, betas=(0.5, 0.99))
opt_d = torch.optim.Adam(D.parameters(), lr=cfg.lr_d, betas=(0.5, 0.99))
sched_g = torch.optim.lr_scheduler.LinearLR(opt_g, 1.0, 0.1, cfg.steps)
sched_d = torch.optim.lr_scheduler.LinearLR(opt_d, 1.0, 0.1, cfg.steps)

for step in range(1, cfg.steps + 1):
    # discriminator
    real = heart(cfg.batch)
    fake = G(torch.randn(cfg.batch, cfg.z))
    loss_d = F.softplus(-D(real)).mean() + F.softplus(D(fake.detach())).mean()
    opt_d.zero_grad()
    loss_d.backward()
    opt_d.step()

    # generator
    loss_g = F.softplus(-D(fake)).mean()
    opt_d.zero_grad()
    loss_g.backward()
    opt_g.step()

    sched_g.step()
    sched_d.step()
    if step % 200 == 0:
        print(f"step {step} d {loss_d.item():.3f} g {loss_g.item():.3f}")

with torch.no_grad():
    gen = torch.Generator().manual_seed(1234)
    truth = heart(4000, gen)
    drawn = G(torch.randn(4000, cfg.z, generator=gen))
print(f"sliced wasserstein distance {sliced_distance(drawn, truth):.4f}")
