"""Detects the voicing state of organ pipes from the magnitude spectrum of a short test tone."""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

STATES = ["good", "cut_up_high", "cut_up_low", "windy", "slow_speech", "overblown"]


@dataclass
class Config:
    bins: int = 96
    batch: int = 64
    epochs: int = 17
    lr: float = 1e-3
    avg_decay: float = 0.99
    seed: int = 6


def record(n, bins, rng):
    label = rng.integers(0, len(STATES), n)
    f0 = rng.uniform(5, 8, n)
    axis = np.arange(bins)
    spec = np.zeros((n, bins))
    for i in range(n):
        s = label[i]
        slope = {0: 0.55, 1: 0.95, 2: 0.38, 3: 0.6, 4: 0.55, 5: 0.5}[s] + rng.normal(0, 0.09)
        amps = np.exp(-slope * np.arange(10))
        if s == 5:
            amps[0] *= 0.35
        if s == 4:
            amps[1::2] *= 0.5
        for k, a in enumerate(amps, start=1):
            spec[i] += a * np.exp(-0.5 * ((axis - k * f0[i]) / 0.9) ** 2)
        floor = 0.012 * (3.5 if s == 3 else 1.0) * np.exp(rng.normal(0, 0.3))
        spec[i] += floor * rng.gamma(2.0, 1.0, bins)
    gain = np.exp(rng.normal(0, 0.4, (n, 1)))
    return np.log(spec * gain + 1e-3).astype(np.float32), label


class PipeNet(nn.Module):
    def __init__(self, bins, classes):
        super().__init__()
        self.c1 = nn.Conv1d(1, 16, 7, stride=2, padding=3)
        self.c2 = nn.Conv1d(16, 32, 5, stride=2, padding=2)
        self.c3 = nn.Conv1d(32, 32, 3, padding=1)
        self.norm1, self.norm2 = nn.GroupNorm(4, 16), nn.GroupNorm(4, 32)
        self.out = nn.Linear(32 * (bins // 4), classes)

    def forward(self, x):
        h = F.relu(self.norm1(self.c1(x.unsqueeze(1))))
        h = F.relu(self.norm2(self.c2(h)))
        h = F.relu(self.c3(h))
        return self.out(h.flatten(1))


class WeightAverage:
    """Running average of the weights; `inside` puts it into the network for a measurement."""

    def __init__(self, net, decay):
        self.net, self.decay = net, decay
        self.avg = {k: v.detach().clone() for k, v in net.state_dict().items()}

    def update(self):
        for k, v in self.net.state_dict().items():
            self.avg[k].lerp_(v, 1 - self.decay)

    def inside(self, measure):
        current = {k: v.clone() for k, v in self.net.state_dict().items()}
        self.net.load_state_dict(self.avg)
        result = measure(self.net)
        self.net.load_state_dict(current)
        return result


def accuracy_on(x, y):
    @torch.no_grad()
    def measure(net):
        net.eval()
        logits = net(x)
        return (logits.argmax(1) == y).float().mean().item(), F.cross_entropy(logits, y).item()
    return measure


def main(cfg):
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    x, y = record(1400, cfg.bins, rng)
    xv, yv = record(400, cfg.bins, rng)
    mean, std = x.mean(), x.std()
    x, xv = torch.from_numpy((x - mean) / std), torch.from_numpy((xv - mean) / std)
    y, yv = torch.from_numpy(y), torch.from_numpy(yv)

    net = PipeNet(cfg.bins, len(STATES))
    average = WeightAverage(net, cfg.avg_decay)
    opt = torch.optim.AdamW(net.parameters(), lr=cfg.lr, weight_decay=1e-2)
    measure = accuracy_on(xv, yv)
    for epoch in range(1, cfg.epochs + 1):
        net.train()
        order = torch.randperm(len(x))
        total, steps = 0.0, 0
        for a in range(0, len(x) - cfg.batch + 1, cfg.batch):
            pick = order[a:a + cfg.batch]
            loss = F.cross_entropy(net(x[pick]), y[pick])
            opt.zero_grad()
            loss.backward()
            opt.step()
            average.update()
            total, steps = total + loss.item(), steps + 1
        acc, ce = average.inside(measure)
        print(f"epoch {epoch:2d}  train loss {total / steps:.4f}  averaged weights: validation loss {ce:.4f}  accuracy {acc:.3f}")


if __name__ == "__main__":
    main(Config())
