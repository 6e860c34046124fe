import argparse
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

PARTS = ["soprano", "mezzo", "alto", "tenor", "baritone", "bass"]
RANGE = {"soprano": (60, 84), "mezzo": (57, 81), "alto": (53, 77), "tenor": (48, 72), "baritone": (45, 67), "bass": (40, 64)}


def sing(n, bins, rng):
    """Log-frequency spectra of one held note, 4 bins per semitone-pair, with formants of the part."""
    freq = 70.0 * 2 ** (np.arange(bins) / 14.0)
    y = rng.integers(0, len(PARTS), n)
    x = np.empty((n, 1, bins), np.float32)
    for i, c in enumerate(y):
        lo, hi = RANGE[PARTS[c]]
        f0 = 440 * 2 ** ((rng.triangular(lo, (lo + hi) / 2, hi) - 69) / 12)
        spec = np.zeros(bins)
        shift = 1.0 - 0.035 * c + rng.normal(0, 0.012)
        for k in range(1, 13):
            f = k * f0
            env = sum(g * math.exp(-((f - m * shift) / w) ** 2) for m, w, g in ((650, 220, 1), (1150, 260, .8), (2900, 420, .6)))
            spec += (env + 0.1 / k) * np.exp(-(np.log2(freq / f) * 14 / 0.8) ** 2)
        x[i, 0] = np.log(spec * rng.uniform(0.5, 2) + 0.015 * rng.gamma(2.0, 1.0, bins))
    return torch.from_numpy(x), torch.from_numpy(y)


class Lion:
    """Sign of an interpolated momentum, decoupled decay and a half-cosine learning rate."""

    def __init__(self, params, lr, total, betas=(0.9, 0.98), decay=0.1):
        self.params = [p for p in params if p.requires_grad]
        self.lr, self.total, self.betas, self.decay = lr, total, betas, decay
        self.memory = [torch.zeros_like(p) for p in self.params]
        self.t = 0

    def rate(self):
        return 0.5 * self.lr * (1 + math.cos(math.pi * self.t / self.total))

    def release(self):
        for p in self.params:
            if p.grad is not None:
                p.grad.zero_()

    @torch.no_grad()
    def advance(self):
        lr, (b1, b2) = self.rate(), self.betas
        for p, m in zip(self.params, self.memory):
            p.mul_(1 - lr * self.decay).sub_(lr * torch.sign(b1 * m + (1 - b1) * p.grad))
            m.mul_(b2).add_(p.grad, alpha=1 - b2)
        self.t += 1


class VoiceNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a = nn.Conv1d(1, width, 7, padding=3)
        self.b = nn.Conv1d(width, width, 5, padding=2)
        self.na, self.nb = nn.BatchNorm1d(width), nn.BatchNorm1d(width)
        self.head = nn.Linear(width * 13, len(PARTS))

    def forward(self, x):
        x = F.max_pool1d(F.relu(self.na(self.a(x))), 2)
        x = F.max_pool1d(F.relu(self.nb(self.b(x))), 4)
        return self.head(F.dropout(x.flatten(1), 0.3, self.training))


def rounds(opt, n, size):
    """One pass over the singers in random order, with the optimizer made ready."""
    order = torch.randperm(n)
    for lo in range(0, n - size + 1, size):
        opt.release()
        yield order[lo:lo + size]


def evaluate(net, x, y):
    net.eval()
    with torch.no_grad():
        logits = net(x)
    net.train()
    return F.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--width", type=int, default=16)
    ap.add_argument("--epochs", type=int, default=14)
    ap.add_argument("--batch", type=int, default=40)
    ap.add_argument("--lr", type=float, default=8e-4)
    ap.add_argument("--seed", type=int, default=21)
    a = ap.parse_args()
    torch.manual_seed(a.seed)
    rng = np.random.default_rng(a.seed)
    xt, yt = sing(2200, 104, rng)
    xv, yv = sing(800, 104, rng)
    mean, std = xt.mean(), xt.std()
    xt, xv = (xt - mean) / std, (xv - mean) / std
    net = VoiceNet(a.width)
    steps = len(xt) // a.batch
    opt = Lion(net.parameters(), a.lr, steps * a.epochs)
    for epoch in range(a.epochs):
        total = 0.0
        for idx in rounds(opt, len(xt), a.batch):
            loss = F.cross_entropy(net(xt[idx]), yt[idx])
            loss.backward()
            opt.advance()
            total += loss.item()
        vl, va = evaluate(net, xv, yv)
        print(f"epoch {epoch + 1:2d} lr {opt.rate():.4f} train {total / steps:.3f} valid {vl:.3f} acc {va:.3f}")


main()
