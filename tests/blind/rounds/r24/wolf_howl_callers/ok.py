import functools
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

BLOCKS = {}


def block(name):
    def keep(fn):
        BLOCKS[name] = fn
        return fn
    return keep


block("gru")(functools.partial(nn.GRU, num_layers=1, batch_first=True))
block("lstm")(functools.partial(nn.LSTM, num_layers=1, batch_first=True))
block("proj")(functools.partial(nn.Linear, bias=False))


@dataclass
class Cfg:
    cell: str = "gru"
    hidden: int = 48
    frames: int = 44
    feats: int = 8
    packs: int = 6
    epochs: int = 13
    batch: int = 48
    lr: float = 4e-3
    seed: int = 5


def howls(n, cfg, rng):
    """Pitch contour plus band energies of single howls; every pack has its own contour habit."""
    t = np.linspace(0, 1, cfg.frames)
    y = rng.integers(0, cfg.packs, n)
    x = np.zeros((n, cfg.frames, cfg.feats), np.float32)
    for i, c in enumerate(y):
        onset, top = rng.uniform(0.05, 0.2), rng.normal(480, 40)
        rise = 1 / (1 + np.exp(-(t - onset) / 0.05))
        bump = [0.25 * np.sin(2 * np.pi * 1.0 * t), 0.25 * np.sin(2 * np.pi * 2.0 * t),
                0.4 * (t - 0.3) * (t > 0.3), -0.4 * (t - 0.3) * (t > 0.3),
                0.22 * (t > 0.35) * (t < 0.55), 0.22 * (t > 0.55) * (t < 0.75)][c]
        fade = 1 / (1 + np.exp((t - rng.uniform(0.9, 1.1)) / 0.05))
        f0 = top * rise * (1 + bump * rng.uniform(0.5, 1.2))
        loud = rise * fade * rng.uniform(0.5, 1.5)
        x[i, :, 0] = f0 * fade + rng.normal(0, 25, cfg.frames)
        x[i, :, 1] = loud + rng.normal(0, 0.1, cfg.frames)
        for b in range(2, cfg.feats):
            x[i, :, b] = loud * np.exp(-((f0 / 480 - 0.6 - 0.15 * b) ** 2) / 0.05) + rng.normal(0, 0.25, cfg.frames)
    return torch.from_numpy(x), torch.from_numpy(y)


class Caller(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.lift = BLOCKS["proj"](cfg.feats, cfg.hidden)
        self.norm = nn.LayerNorm(cfg.hidden)
        self.cell = BLOCKS[cfg.cell](cfg.hidden, cfg.hidden)
        self.out = nn.Linear(cfg.hidden, cfg.packs)

    def forward(self, x):
        h, _ = self.cell(F.relu(self.norm(self.lift(x))))
        return self.out(h[:, -1])


def accuracy(net, loader):
    net.eval()
    with torch.no_grad():
        hit = [(net(x).argmax(1) == y).float() for x, y in loader]
    net.train()
    return torch.cat(hit).mean().item()


def run(cfg):
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    (xt, yt), (xv, yv) = howls(1300, cfg, rng), howls(480, cfg, rng)
    mu, sd = xt.mean((0, 1)), xt.std((0, 1))
    xt, xv = (xt - mu) / sd, (xv - mu) / sd
    train = DataLoader(TensorDataset(xt, yt), cfg.batch, shuffle=True, drop_last=True)
    valid = DataLoader(TensorDataset(xv, yv), cfg.batch)
    net = Caller(cfg)
    opt = torch.optim.AdamW(net.parameters(), lr=cfg.lr, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, cfg.lr, total_steps=cfg.epochs * len(train))
    for epoch in range(1, cfg.epochs + 1):
        total = 0.0
        for x, y in train:
            loss = F.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            sched.step()
            total += loss.item()
        print(f"epoch {epoch:2d}  loss {total / len(train):.3f}  valid acc {accuracy(net, valid):.3f}")


run(Cfg())
