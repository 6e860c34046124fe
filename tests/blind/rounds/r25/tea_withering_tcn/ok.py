"""End of withering for a trough of tea leaf.

Every trough logs leaf moisture loss, air temperature, hygrometric difference and fan current each ten minutes.
Troughs are read at very different times, between 3 and 16 hours after loading. The model says how many hours
are left until the leaf is ready to roll.
"""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn


@dataclass
class Config:
    troughs: int = 1500
    val_troughs: int = 350
    channels: int = 24
    levels: int = 4
    batch: int = 48
    epochs: int = 9
    lr: float = 3e-3
    seed: int = 5


def simulate(n, rng):
    runs, left = [], []
    for _ in range(n):
        steps = int(rng.integers(18, 97))
        t = np.arange(steps)
        temp = 24 + rng.normal(0, 2.5) + 3 * np.sin(2 * np.pi * (t + rng.integers(144)) / 144) + rng.normal(0, 0.3, steps)
        hygro = np.clip(4 + rng.normal(0, 1.2) + np.cumsum(rng.normal(0, 0.12, steps)), 0.5, 9)
        fan = 11 + rng.normal(0, 1.5) + rng.normal(0, 0.2, steps)
        rate = 0.020 * hygro * (1 + 0.05 * (temp - 24)) * fan / 11
        lost = 30 * (1 - np.exp(-np.cumsum(rate) / rng.uniform(6, 9)))
        recent = np.mean(rate[-8:])
        missing = 34 - lost[-1]
        hours = 0.14 * missing / recent ** 0.8
        runs.append(np.stack([lost + rng.normal(0, 0.25, steps), temp, hygro, fan], 1).astype(np.float32))
        left.append(hours * (1 + rng.normal(0, 0.03)))
    return runs, np.array(left, dtype=np.float32)


class Causal(nn.Module):
    def __init__(self, cin, cout, dilation):
        super().__init__()
        self.shift = 2 * dilation
        self.conv = nn.Conv1d(cin, cout, 3, dilation=dilation)
        self.mix = nn.Conv1d(cout, cout, 1)
        self.skip = nn.Conv1d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x):
        z = torch.relu(self.conv(nn.functional.pad(x, (self.shift, 0))))
        return torch.relu(self.mix(z) + self.skip(x))


class WitherTCN(nn.Module):
    def __init__(self, cfg, n_in=4):
        super().__init__()
        widths = [n_in] + [cfg.channels] * cfg.levels
        self.net = nn.Sequential(*[Causal(widths[i], widths[i + 1], 2 ** i) for i in range(cfg.levels)])
        self.head = nn.Sequential(nn.Linear(cfg.channels, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x, steps):
        z = self.net(x.transpose(1, 2))
        at = (steps - 1).view(-1, 1, 1).expand(len(steps), z.shape[1], 1)
        return self.head(z.gather(2, at).squeeze(2)).squeeze(1)


def batches(runs, targets, size, rng=None):
    order = np.arange(len(runs)) if rng is None else rng.permutation(len(runs))
    for start in range(0, len(order), size):
        pick = order[start:start + size]
        steps = torch.tensor([len(runs[i]) for i in pick])
        x = torch.zeros(len(pick), int(steps.max()), runs[0].shape[1])
        for row, i in enumerate(pick):
            x[row, :len(runs[i])] = torch.from_numpy(runs[i])
        yield x, steps, torch.from_numpy(targets[pick])


def main(cfg):
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    runs, left = simulate(cfg.troughs + cfg.val_troughs, rng)
    train_runs, val_runs = runs[:cfg.troughs], runs[cfg.troughs:]
    train_left, val_left = left[:cfg.troughs], left[cfg.troughs:]

    every = np.concatenate(train_runs)
    mean, std = every.mean(0), every.std(0)
    train_runs = [(r - mean) / std for r in train_runs]
    val_runs = [(r - mean) / std for r in val_runs]
    log_mean, log_std = np.log(train_left).mean(), np.log(train_left).std()
    goal = ((np.log(train_left) - log_mean) / log_std).astype(np.float32)

    model = WitherTCN(cfg)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg.epochs)
    for epoch in range(1, cfg.epochs + 1):
        model.train()
        total = 0.0
        for x, steps, y in batches(train_runs, goal, cfg.batch, rng):
            loss = (model(x, steps) - y).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
        sched.step()

        model.eval()
        err = 0.0
        with torch.no_grad():
            for x, steps, y in batches(val_runs, val_left, 50):
                hours = torch.exp(model(x, steps) * float(log_std) + float(log_mean))
                err += (hours - y).abs().sum().item()
        print(f"epoch {epoch:2d}: train {total / cfg.troughs:.4f}, val MAE {err / cfg.val_troughs:.3f} h")
    print(f"always the median: {np.abs(val_left - np.median(train_left)).mean():.3f} h")


if __name__ == "__main__":
    main(Config())
