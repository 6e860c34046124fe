"""Denoising diffusion for yarn tension profiles of a flat-bed knitting machine (one course = 32 needles).

The sampler is used to draw synthetic courses for testing the feed control.
"""
import math

import numpy as np
import torch
from torch import nn

NEEDLES = 32
T = 60


def make_courses(n, seed):
    """Tension in cN: carriage drag, a rib pattern of period 4 or 8, and a slack or tight edge."""
    rng = np.random.default_rng(seed)
    pos = np.arange(NEEDLES)
    period = rng.choice([4, 8], size=n, p=[0.6, 0.4])
    amp = rng.gamma(20, 0.08, size=n)
    phase = rng.integers(0, 2, size=n) * math.pi / 2
    drag = rng.normal(0.05, 0.02, size=n)
    edge = np.where(rng.random(n) < 0.5, 1.5, -1.0)
    x = 6 + drag[:, None] * pos + amp[:, None] * np.sin(2 * math.pi * pos / period[:, None] + phase[:, None])
    x = x + edge[:, None] * np.exp(-pos / 3) + 0.12 * rng.normal(size=(n, NEEDLES))
    return torch.tensor(x, dtype=torch.float32)


class Denoiser(nn.Module):
    def __init__(self, width=128, freqs=16):
        super().__init__()
        self.register_buffer("freq", torch.exp(torch.linspace(0, math.log(60.0), freqs)))
        self.inp = nn.Linear(NEEDLES, width)
        self.time = nn.Sequential(nn.Linear(2 * freqs, width), nn.SiLU(), nn.Linear(width, width))
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
            for _ in range(3)
        )
        self.out = nn.Linear(width, NEEDLES)

    def forward(self, x, t):
        ang = (t.float() / T)[:, None] * self.freq
        emb = self.time(torch.cat([ang.sin(), ang.cos()], dim=1))
        h = self.inp(x)
        for blk in self.blocks:
            h = h + blk(h + emb)
        return self.out(h)


class Diffusion:
    def __init__(self, steps=T):
        self.beta = torch.linspace(2e-3, 0.16, steps)
        self.alpha = 1 - self.beta
        self.bar = torch.cumprod(self.alpha, 0)
        self.steps = steps

    def loss(self, model, x0):
        t = torch.randint(0, self.steps, (len(x0),))
        eps = torch.randn_like(x0)
        b = self.bar[t][:, None]
        pred = model(b.sqrt() * x0 + (1 - b).sqrt() * eps, t)
        return (pred - eps).pow(2).mean()

    @torch.no_grad()
    def sample(self, model, n):
        x = torch.randn(n, NEEDLES)
        for i in reversed(range(self.steps)):
            t = torch.full((n,), i / self.steps)
            eps = model(x, t)
            x = (x - self.beta[i] / (1 - self.bar[i]).sqrt() * eps) / self.alpha[i].sqrt()
            if i > 0:
                var = self.beta[i] * (1 - self.bar[i - 1]) / (1 - self.bar[i])
                x = x + var.sqrt() * torch.randn_like(x)
        return x


def energy_distance(a, b):
    def off(m):
        return m.sum() / (m.numel() - len(m))
    return (2 * torch.cdist(a, b).mean() - off(torch.cdist(a, a)) - off(torch.cdist(b, b))).item()


def main():
    torch.manual_seed(3)
    train, held = make_courses(4000, seed=1), make_courses(1000, seed=2)
    mean, std = train.mean(), train.std()
    x = (train - mean) / std
    model, diff = Denoiser(), Diffusion()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    steps = 1100
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, steps)
    avg = 0.0
    for step in range(steps):
        model.train()
        batch = x[torch.randint(0, len(x), (128,))]
        loss = diff.loss(model, batch)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        avg += loss.item()
        if (step + 1) % 100 == 0:
            print(f"{step + 1:5d} noise mse {avg / 100:.4f}")
            avg = 0.0
    model.eval()
    fake = diff.sample(model, 1000) * std + mean
    print(f"energy distance to held-out courses {energy_distance(fake, held):.4f}")
    print(f"tension mean {fake.mean():.2f} (held-out {held.mean():.2f}) std {fake.std():.2f} ({held.std():.2f})")


if __name__ == "__main__":
    main()
