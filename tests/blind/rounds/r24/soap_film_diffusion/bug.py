"""Denoising diffusion for thickness profiles of draining soap bubbles (16 heights on the shell)."""
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass
class Config:
    heights: int = 16
    n_train: int = 6000
    n_test: int = 1500
    T: int = 120
    hidden: int = 112
    steps: int = 2500
    batch: int = 128
    lr: float = 1e-3
    seed: int = 11


def make_profiles(n, heights, rng):
    """Thickness in nm from the top of the bubble to its foot: two kinds of soap, gravity drainage, black film."""
    z = np.linspace(0.0, 1.0, heights)
    soap = rng.random(n) < 0.35
    age = rng.gamma(3.0, 0.35, n)
    base = np.where(soap, 820.0, 430.0) * np.exp(0.08 * rng.standard_normal(n))
    power = np.where(soap, 0.7, 1.6)
    h = base[:, None] * z[None, :] ** power[:, None] / (1.0 + 0.5 * age[:, None])
    swirl = 35.0 * np.sin(2 * np.pi * (1.5 * z[None, :] + rng.random(n)[:, None]))
    h = h + swirl * z[None, :] + 60.0 + 6.0 * rng.standard_normal((n, heights))
    return np.maximum(h, 12.0).astype(np.float32)


class Denoiser(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.freqs = nn.Buffer(torch.exp(torch.linspace(0.0, 5.0, 16)))
        self.inp = nn.Linear(dim + 32, hidden)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, hidden))
            for _ in range(2))
        self.out = nn.Linear(hidden, dim)

    def forward(self, x, t):
        ang = t[:, None] * self.freqs
        h = self.inp(torch.cat([x, ang.sin(), ang.cos()], dim=1))
        for block in self.blocks:
            h = h + block(h)
        return self.out(h)


class Diffusion:
    def __init__(self, T):
        self.T = T
        self.beta = torch.linspace(1e-4, 0.06, T)
        self.alpha = 1.0 - self.beta
        self.abar = torch.cumprod(self.alpha, dim=0)

    def noisy(self, x0, t, eps):
        abar = self.abar[t][:, None]
        return abar.sqrt() * x0 + (1.0 - abar).sqrt() * eps

    def loss(self, net, x0):
        t = torch.randint(0, self.T, (len(x0),))
        eps = torch.randn_like(x0)
        pred = net(self.noisy(x0, t, eps), t.float() / self.T)
        return ((pred - eps) ** 2).mean()

    @torch.no_grad()
    def sample(self, net, n, dim):
        x = torch.randn(n, dim)
        for i in reversed(range(self.T)):
            t = torch.full((n,), float(i))
            eps = net(x, t)
            x = (x - self.beta[i] / (1.0 - self.abar[i]).sqrt() * eps) / self.alpha[i].sqrt()
            if i > 0:
                x = x + self.beta[i].sqrt() * torch.randn_like(x)
        return x


def sliced_distance(a, b, rng, k=200):
    d = rng.standard_normal((a.shape[1], k)).astype(np.float32)
    d /= np.linalg.norm(d, axis=0)
    return float(np.abs(np.sort(a @ d, axis=0) - np.sort(b @ d, axis=0)).mean())


def main(cfg):
    rng = np.random.default_rng(cfg.seed)
    torch.manual_seed(cfg.seed)
    train = make_profiles(cfg.n_train, cfg.heights, rng)
    test = make_profiles(cfg.n_test, cfg.heights, rng)
    mean, std = train.mean(0), train.std(0)
    data = torch.from_numpy((train - mean) / std)

    net, diff = Denoiser(cfg.heights, cfg.hidden), Diffusion(cfg.T)
    opt = torch.optim.AdamW(net.parameters(), lr=cfg.lr, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg.steps)
    running = 0.0
    for step in range(1, cfg.steps + 1):
        loss = diff.loss(net, data[torch.randint(0, len(data), (cfg.batch,))])
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        running += loss.item()
        if step % 500 == 0:
            print(f"step {step:5d}  noise mse {running / 500:.4f}")
            running = 0.0

    net.eval()
    fake = diff.sample(net, cfg.n_test, cfg.heights).numpy() * std + mean
    print(f"sliced Wasserstein to held-out profiles: {sliced_distance(fake, test, rng):.2f} nm")


if __name__ == "__main__":
    main(Config())
