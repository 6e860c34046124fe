"""Event type (noise / local quake / quarry blast) from three-component station windows."""
import argparse

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

FS = 50.0
N = 256


def envelope(t, onset, rise, decay):
    x = np.clip(t - onset, 0, None)
    return (1 - np.exp(-x / rise)) * np.exp(-x / decay) * (t >= onset)


def make_window(rng):
    t = np.arange(N) / FS
    kind = rng.integers(3)
    micro = rng.uniform(0.15, 0.35)
    w = rng.normal(0, 0.35, (3, N))
    w += np.sin(2 * np.pi * micro * t + rng.uniform(0, 6.28, (3, 1))) * rng.uniform(0.2, 0.6, (3, 1))
    if kind == 0 and rng.random() < 0.6:
        # footsteps and traffic near the vault
        c = rng.uniform(1, 4)
        w += np.exp(-((t - c) / 0.3) ** 2) * rng.normal(0, 1.0, (3, N))
    if kind > 0:
        onset = rng.uniform(0.5, 1.8)
        amp = rng.lognormal(0.1, 0.35)
        p = envelope(t, onset, 0.05, 0.5) * np.sin(2 * np.pi * rng.uniform(6, 10) * t + rng.uniform(0, 6.28))
        sp = rng.uniform(0.7, 1.6)
        s = envelope(t, onset + sp, 0.08, 0.9) * np.sin(2 * np.pi * rng.uniform(3, 5) * t + rng.uniform(0, 6.28))
        ratio = rng.uniform(0.9, 1.8) if kind == 1 else rng.uniform(0.2, 0.8)
        az = rng.uniform(0, 6.28)
        w[0] += amp * (p + 0.3 * ratio * s)
        w[1] += amp * (0.3 * p + ratio * s) * np.cos(az)
        w[2] += amp * (0.3 * p + ratio * s) * np.sin(az)
        if kind == 2:
            w[0] += amp * 0.5 * envelope(t, onset + 1.2 * sp, 0.2, 1.2) * np.sin(2 * np.pi * 1.2 * t)
    return w * rng.lognormal(0, 0.4), kind


def build(n, seed):
    rng = np.random.default_rng(seed)
    xs, ys = zip(*(make_window(rng) for _ in range(n)))
    x = np.stack(xs).astype(np.float32)
    x -= x.mean(axis=2, keepdims=True)
    x /= x.std(axis=(1, 2), keepdims=True)
    return TensorDataset(torch.from_numpy(x), torch.tensor(ys))


def make_net(width):
    return nn.Sequential(
        nn.Conv1d(3, width, 7, stride=4, padding=3), nn.BatchNorm1d(width), nn.ReLU(),
        nn.Conv1d(width, width, 7, stride=2, padding=3), nn.BatchNorm1d(width), nn.ReLU(),
        nn.Conv1d(width, 2 * width, 5, stride=2, padding=2), nn.BatchNorm1d(2 * width), nn.ReLU(),
        nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Dropout(0.2), nn.Linear(8 * width, 3))


@torch.no_grad()
def accuracy(net, loader):
    net.eval()
    hit = sum((net(x).argmax(1) == y).sum().item() for x, y in loader)
    return hit / len(loader.dataset)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=10)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--width", type=int, default=16)
    ap.add_argument("--seed", type=int, default=3)
    args = ap.parse_args()

    torch.manual_seed(args.seed)
    train = DataLoader(build(1600, 10), batch_size=args.batch, shuffle=True)
    valid = DataLoader(build(500, 11), batch_size=256)
    net = make_net(args.width)
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.85)
    ce = nn.CrossEntropyLoss()

    for epoch in range(args.epochs):
        net.train()
        total = 0.0
        for x, y in train:
            opt.zero_grad()
            loss = ce(net(x), y)
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
            sched.step()
        print(f"epoch {epoch + 1:2d}  loss {total / len(train.dataset):.4f}  valid acc {accuracy(net, valid):.3f}")


if __name__ == "__main__":
    main()
