"""Density of six correlated sensor channels with affine coupling layers."""
import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn


@dataclass
class Config:
    dim: int = 6
    layers: int = 6
    hidden: int = 48
    steps: int = 900
    batch: int = 256
    lr: float = 2e-3
    seed: int = 13


def readings(n, rng):
    mode = rng.integers(0, 3, n)
    a = np.array([-2.0, 0.0, 2.0])[mode] + 0.25 * rng.normal(size=n)
    b = 0.6 * a ** 2 + 0.3 * rng.normal(size=n)
    r = 2 + 0.15 * rng.normal(size=n)
    phi = rng.uniform(0, 2 * np.pi, n)
    c, d = r * np.cos(phi), r * np.sin(phi)
    e = np.sin(2 * a) + 0.2 * rng.normal(size=n)
    f = np.exp(0.4 * c) + 0.2 * rng.normal(size=n)
    return np.stack([a, c, b, d, e, f], 1).astype(np.float32)


class Coupling(nn.Module):
    def __init__(self, mask, hidden):
        super().__init__()
        self.register_buffer("mask", mask)
        d = len(mask)
        self.net = nn.Sequential(nn.Linear(d, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
                                 nn.Linear(hidden, 2 * d))
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x):
        keep = x * self.mask
        s, t = self.net(keep).chunk(2, dim=1)
        s = 2 * torch.tanh(s / 2) * (1 - self.mask)
        t = t * (1 - self.mask)
        return keep + (1 - self.mask) * (x * s.exp() + t), s.sum(1)


class Flow(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        mask = (torch.arange(cfg.dim) % 2).float()
        blocks = []
        for _ in range(cfg.layers):
            blocks.append(Coupling(mask, cfg.hidden))
            mask = 1 - mask
        self.blocks = nn.ModuleList(blocks)
        self.dim = cfg.dim

    def log_prob(self, x):
        total = x.new_zeros(len(x))
        for block in self.blocks:
            x, ld = block(x)
            total = total + ld
        base = -0.5 * x.pow(2).sum(1) - 0.5 * self.dim * math.log(2 * math.pi)
        return base + total


def train(cfg, data, flow):
    opt = torch.optim.Adam(flow.parameters(), lr=cfg.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg.steps)
    g = torch.Generator().manual_seed(cfg.seed)
    ema = None
    for step in range(1, cfg.steps + 1):
        x = data[torch.randint(len(data), (cfg.batch,), generator=g)]
        nll = -flow.log_prob(x).mean()
        opt.zero_grad()
        nll.backward()
        nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
        opt.step()
        sched.step()
        ema = nll.item() if ema is None else 0.98 * ema + 0.02 * nll.item()
        if step % 150 == 0:
            print(f"step {step:4d}  nll {ema:.3f}")


if __name__ == "__main__":
    cfg = Config()
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    tr, te = readings(8000, rng), readings(4000, rng)
    mu, sd = tr.mean(0), tr.std(0)
    tr, te = torch.from_numpy((tr - mu) / sd), torch.from_numpy((te - mu) / sd)
    flow = Flow(cfg)
    train(cfg, tr, flow)
    flow.eval()
    with torch.no_grad():
        print(f"held-out nll {-flow.log_prob(te).mean().item():.4f}")
