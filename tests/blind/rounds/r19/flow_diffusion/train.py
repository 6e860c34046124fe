"""DDPM on two-dimensional pick-up locations."""
import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn


class Normalizer:
    def __init__(self, path):
        stats = json.loads(Path(path).read_text())
        self.mean, self.std = torch.tensor(stats["mean"]), torch.tensor(stats["std"])

    def encode(self, x):
        return (x - self.mean) / self.std

    def decode(self, z):
        return z * self.std + self.mean


class Denoiser(nn.Module):
    def __init__(self, dim=2, hidden=128, t_dim=32):
        super().__init__()
        self.register_buffer("freqs", torch.exp(-math.log(1000) * torch.arange(t_dim // 2) / (t_dim // 2)))
        self.net = nn.Sequential(
            nn.Linear(dim + t_dim, hidden), nn.ReLU(),
            nn.Linear(hidden, hidden), nn.ReLU(),
            nn.Linear(hidden, hidden), nn.ReLU(),
            nn.Linear(hidden, dim),
        )

    def forward(self, x, t):
        a = t.float()[:, None] * self.freqs
        return self.net(torch.cat([x, a.sin(), a.cos()], dim=1))


class Diffusion:
    def __init__(self, steps=100):
        self.steps = steps
        self.beta = torch.linspace(1e-3, 0.12, steps)
        self.alpha = 1 - self.beta
        self.abar = torch.cumprod(self.alpha, 0)

    def loss(self, model, x0):
        t = torch.randint(self.steps, (len(x0),))
        eps = torch.randn_like(x0)
        ab = self.abar[t][:, None]
        xt = ab.sqrt() * x0 + (1 - ab).sqrt() * eps
        return ((model(xt, t) - eps) ** 2).mean()

    @torch.no_grad()
    def sample(self, model, n):
        x = torch.randn(n, 2)
        for i in reversed(range(self.steps)):
            t = torch.full((n,), i)
            eps = model(x, t)
            x = (x - self.beta[i] / (1 - self.abar[i]).sqrt() * eps) / self.alpha[i].sqrt()
            if i > 0:
                var = self.beta[i] * (1 - self.abar[i - 1]) / (1 - self.abar[i])
                x = x + var.sqrt() * torch.randn_like(x)
        return x


def sliced_wasserstein(a, b, n_proj=100):
    theta = torch.randn(a.shape[1], n_proj, generator=torch.Generator().manual_seed(0))
    theta = theta / theta.norm(dim=0)
    pa, pb = (a @ theta).sort(0).values, (b @ theta).sort(0).values
    return (pa - pb).abs().mean().item()


def grid_distance(a, b, cell=0.75):
    lo, hi = b.min(0).values, b.max(0).values
    bins = ((hi - lo) / cell).ceil().long()
    edges = [lo[0].item(), hi[0].item(), lo[1].item(), hi[1].item()]
    ha, hb = [torch.histogramdd(p.contiguous(), bins=bins.tolist(), range=edges).hist / len(p) for p in (a, b)]
    outside = 1 - ha.sum()
    return 0.5 * ((ha - hb).abs().sum() + outside).item()


def main():
    folder = Path(sys.argv[1])
    torch.manual_seed(10)
    norm = Normalizer(folder / "stats.json")
    train = norm.encode(torch.from_numpy(np.load(folder / "train.npy")))
    test = torch.from_numpy(np.load(folder / "test.npy"))
    model, diffusion = Denoiser(), Diffusion()
    ema = {k: v.clone() for k, v in model.state_dict().items()}
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    epochs, step = 80, 0
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(train)).split(256):
            loss = diffusion.loss(model, train[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            decay = min(0.99, step / (step + 10))
            for k, v in model.state_dict().items():
                ema[k].lerp_(v, 1 - decay)
            total += loss.item() * len(idx)
        sched.step()
        if epoch % 20 == 19:
            print(f"epoch {epoch + 1} step {step} loss {total / len(train):.4f}", flush=True)
    model.load_state_dict(ema)
    model.eval()
    samples = norm.decode(diffusion.sample(model, len(test)))
    print(f"total variation on a 0.75 km grid: {grid_distance(samples, test):.4f}")
    print(f"sliced wasserstein to held-out points: {sliced_wasserstein(samples, test):.4f} km")


if __name__ == "__main__":
    main()
