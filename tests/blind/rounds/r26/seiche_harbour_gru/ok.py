"""Harbour seiche: water level six minutes ahead from tide-gauge and barometer records (one sample per minute)."""
import argparse

import numpy as np
import torch
from torch import nn

WINDOW, AHEAD = 36, 6


def gauge(minutes, seed):
    rng = np.random.default_rng(seed)
    level, pressure = np.zeros(minutes), np.zeros(minutes)
    period, damping = 23.0, 0.96
    w = 2 * np.pi / period
    a, b, p = 0.0, 0.0, 0.0
    for t in range(minutes):
        p = 0.9 * p + rng.normal(0, 0.5)
        kick = 1.5 * p + rng.normal(0, 3.0)
        a, b = damping * (a * np.cos(w) - b * np.sin(w)) + kick, damping * (a * np.sin(w) + b * np.cos(w))
        level[t], pressure[t] = a, p
    chop = rng.normal(0, 2.0, minutes)
    return np.stack([level + chop, pressure + rng.normal(0, 0.1, minutes)], 1), level


def smooth(series, alpha):
    out = np.empty_like(series)
    state = series[0]
    for t in range(len(series)):
        state = state + alpha * (series[t] - state)
        out[t] = state
    return out


def denoise(series, alpha=0.1):
    once = smooth(series, alpha)
    return 2 * once - smooth(once, alpha)


def windows(series, level, first, last):
    ends = np.arange(max(first, WINDOW), last - AHEAD)
    x = np.stack([series[e - WINDOW + 1:e + 1] for e in ends])
    return torch.tensor(x, dtype=torch.float32), torch.tensor(level[ends + AHEAD], dtype=torch.float32)


class SeicheGRU(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.rnn = nn.GRU(2, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        states, _ = self.rnn(x)
        return self.out(states[:, -1])[:, 0]


def fit(args):
    raw, level = gauge(args.minutes, args.seed)
    split = int(0.75 * args.minutes)
    series = denoise(raw)
    mean, std = series[:split].mean(0), series[:split].std(0)
    scale = level[:split].std()
    x, y = windows((series - mean) / std, level / scale, 0, split)
    xv, yv = windows((series - mean) / std, level / scale, split + WINDOW, args.minutes)

    torch.manual_seed(args.seed)
    net = SeicheGRU(args.hidden)
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    for epoch in range(1, args.epochs + 1):
        net.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(args.batch):
            loss = (net(x[idx]) - y[idx]).square().mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            total += loss.item() * len(idx)
        sched.step()
        net.eval()
        with torch.no_grad():
            rmse = (net(xv) - yv).square().mean().sqrt().item() * scale
        print(f"epoch {epoch:2d}  train {total / len(x):.4f}  validation RMSE {rmse:.2f} cm "
              f"(persistence {np.std(level[split + AHEAD:] - raw[split:-AHEAD, 0]):.2f} cm)")
    return net, dict(raw=raw, level=level, split=split, mean=mean, std=std, scale=scale)


def options():
    p = argparse.ArgumentParser()
    p.add_argument("--minutes", type=int, default=3200)
    p.add_argument("--hidden", type=int, default=24)
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--lr", type=float, default=8e-3)
    p.add_argument("--seed", type=int, default=17)
    return p.parse_args()


if __name__ == "__main__":
    torch.set_num_threads(1)
    fit(options())
