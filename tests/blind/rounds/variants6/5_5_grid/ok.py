import argparse
from copy import deepcopy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def power_events(n, seed):
    """Harmonics of short disturbances in the power grid; labels are known for few only (-1: unknown)."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, n)
    proto = np.random.default_rng(0).normal(0, 1.0, (4, 10))
    strength = rng.uniform(0.6, 1.4, (n, 1))
    x = strength * proto[y] + 0.35 * rng.normal(size=(n, 1)) + rng.normal(0, 0.55, (n, 10))
    return x.astype(np.float32), y


def weak(x):
    return x + 0.1 * torch.randn_like(x)


def strong(x):
    keep = (torch.rand_like(x) > 0.15).float()
    return (x + 0.3 * torch.randn_like(x)) * keep


class Classifier(nn.Module):
    def __init__(self, d=10, k=4, h=64):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(d, h), nn.GELU(), nn.Linear(h, h), nn.GELU())
        self.cls = nn.Linear(h, k)

    def forward(self, x):
        return self.cls(self.trunk(x))


def losses(model, guide, x, y, tau):
    logits = model(weak(x))
    sup = F.cross_entropy(logits, y, ignore_index=-1)
    with torch.no_grad():
        conf, pseudo = guide(weak(x)).softmax(1).max(1)
    mask = ((conf >= tau) & (y < 0)).float()
    per_row = F.cross_entropy(model(strong(x)), pseudo, reduction="none")
    return sup, (per_row * mask).mean(), mask.mean().item()


def main(args):
    torch.manual_seed(args.seed)
    x, y = power_events(6000, args.seed)
    n = 4500
    mu, sd = x[:n].mean(0), x[:n].std(0)
    x = torch.from_numpy((x - mu) / sd)
    y = torch.from_numpy(y)
    visible = y[:n].clone()
    hidden = torch.rand(n) > args.labelled
    visible[hidden] = -1
    model = Classifier()
    guide = deepcopy(model).requires_grad_(False)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        model.train()
        for idx in torch.randperm(n).split(250):
            sup, unsup, used = losses(model, guide, x[idx], visible[idx], args.tau)
            loss = sup + args.weight * unsup
            opt.zero_grad()
            loss.backward()
            opt.step()
            with torch.no_grad():
                for g, m in zip(guide.parameters(), model.parameters()):
                    g.lerp_(m, 1 - args.decay)
        if epoch % 8 == 0:
            print(f"epoch {epoch:2d} sup {sup.item():.3f} unsup {unsup.item():.3f} used {used:.2f}")
    guide.eval()
    with torch.no_grad():
        acc = (guide(x[n:]).argmax(1) == y[n:]).float().mean().item()
    print(f"averaged model test accuracy: {acc:.4f}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--labelled", type=float, default=0.06)
    p.add_argument("--tau", type=float, default=0.85)
    p.add_argument("--weight", type=float, default=1.0)
    p.add_argument("--decay", type=float, default=0.98)
    p.add_argument("--epochs", type=int, default=30)
    p.add_argument("--seed", type=int, default=14)
    main(p.parse_args())
