"""DDPM on 2-D feature pairs; schedule and training settings out of FOLDER/config.json.

usage: python train.py FOLDER
"""
import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class NoiseSchedule:
    def __init__(self, timesteps, beta_start, beta_end):
        self.T = timesteps
        self.betas = torch.linspace(beta_start, beta_end, timesteps)
        self.alphas = 1 - self.betas
        self.alpha_bar = self.alphas.cumprod(0)

    def add_noise(self, x0, t, eps):
        ab = self.alpha_bar[t][:, None]
        return ab.sqrt() * x0 + (1 - ab).sqrt() * eps


class EpsNet(nn.Module):
    def __init__(self, T, width):
        super().__init__()
        self.time = nn.Embedding(T, width)
        self.first = nn.Linear(2, width)
        self.mid = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.last = nn.Linear(width, 2)

    def forward(self, x, t):
        e = self.time(t)
        h = F.silu(self.first(x) + e)
        for layer in self.mid:
            h = h + F.silu(layer(h) + e)
        return self.last(h)


@torch.no_grad()
def generate(net, sched, n, gen):
    net.eval()
    x = torch.randn(n, 2, generator=gen)
    for i in range(sched.T - 1, -1, -1):
        eps = net(x, torch.full((n,), i))
        x = (x - sched.betas[i] / (1 - sched.alpha_bar[i]).sqrt() * eps) / sched.alphas[i].sqrt()
        if i:
            var = sched.betas[i] * (1 - sched.alpha_bar[i - 1]) / (1 - sched.alpha_bar[i])
            x = x + var.sqrt() * torch.randn(n, 2, generator=gen)
    return x


@torch.no_grad()
def validation_mse(net, sched, x):
    net.eval()
    gen = torch.Generator().manual_seed(0)
    t = torch.randint(0, sched.T, (len(x),), generator=gen)
    eps = torch.randn(x.shape, generator=gen)
    return F.mse_loss(net(sched.add_noise(x, t, eps), t), eps).item()


def main(folder):
    cfg = json.loads((folder / "config.json").read_text())
    torch.manual_seed(cfg["seed"])
    data = np.load(folder / "pairs.npz")
    train, valid = torch.from_numpy(data["train"]), torch.from_numpy(data["valid"])
    lo, hi = train.min(0).values, train.max(0).values
    train, valid = ((a - lo) / (hi - lo) * 2 - 1 for a in (train, valid))

    sched = NoiseSchedule(cfg["timesteps"], cfg["beta_start"], cfg["beta_end"])
    net = EpsNet(sched.T, cfg["width"])
    opt = torch.optim.Adam(net.parameters(), lr=cfg["lr"])
    lr_sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg["epochs"])
    loader = DataLoader(TensorDataset(train), batch_size=cfg["batch_size"], shuffle=True)
    for epoch in range(1, cfg["epochs"] + 1):
        net.train()
        total = 0.0
        for (x0,) in loader:
            t = torch.randint(0, sched.T, (len(x0),))
            eps = torch.randn_like(x0)
            loss = F.mse_loss(net(sched.add_noise(x0, t, eps), t), eps)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        lr_sched.step()
        if epoch % 5 == 0:
            print(f"epoch {epoch:3d}  train mse {total / len(loader):.4f}  valid mse {validation_mse(net, sched, valid):.4f}")

    out = generate(net, sched, 1000, torch.Generator().manual_seed(3))
    shift = (out.mean(0) - valid.mean(0)).norm().item()
    side = (out[:, 0] > 0).float().mean().item()
    print(f"generated: share left {1 - side:.3f} / right {side:.3f}   held-out: left {(valid[:, 0] <= 0).float().mean():.3f}")
    print(f"distance between the means of generated and held-out points: {shift:.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
