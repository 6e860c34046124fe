"""P90 demand model for replenishment: one MLP, pinball loss at tau=0.9."""
import argparse
import numpy as np
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=25)
parser.add_argument("--batch-size", type=int, default=128)
parser.add_argument("--lr", type=float, default=3e-3)
parser.add_argument("--tau", type=float, default=0.9)
parser.add_argument("--seed", type=int, default=7)
args = parser.parse_args()

torch.manual_seed(args.seed)
rng = np.random.default_rng(args.seed)


def make_sales(n):
    """price ratio, promo, weekday, store size, temperature -> units sold"""
    price = rng.uniform(0.7, 1.3, n)
    promo = rng.random(n) < 0.25
    weekday = rng.integers(0, 7, n)
    size = rng.gamma(4.0, 0.25, n)
    temp = rng.normal(15, 7, n)
    level = 20 * size * np.exp(-1.5 * (price - 1)) * (1 + 0.8 * promo) * (1 + 0.3 * (weekday >= 5))
    level *= 1 + 0.02 * (temp - 15)
    units = rng.poisson(np.clip(level, 0.5, None) * rng.gamma(8, 1 / 8, n))
    week = np.eye(7)[weekday]
    x = np.column_stack([price - 1, promo, size - 1, (temp - 15) / 7, week])
    return torch.tensor(x, dtype=torch.float32), torch.tensor(units, dtype=torch.float32)


x_all, y_all = make_sales(6000)
x_tr, y_tr = x_all[:4500], y_all[:4500]
x_va, y_va = x_all[4500:], y_all[4500:]
scale = y_tr.mean()

model = nn.Sequential(nn.Linear(x_tr.shape[1], 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)


def pinball(pred, target, tau):
    err = target - pred
    return torch.maximum(tau * err, (tau - 1) * err).mean()


@torch.no_grad()
def report(tag):
    model.eval()
    q = model(x_va).flatten() * scale
    err = y_va - q
    loss = torch.maximum(args.tau * err, (args.tau - 1) * err).mean().item()
    coverage = (y_va <= q).float().mean().item()
    stock = (q - y_va).clamp(min=0).mean().item()
    print(f"{tag} val pinball {loss:.3f}  coverage {coverage:.3f}  overstock {stock:.2f} units")


naive = torch.quantile(y_tr, args.tau)
err = y_va - naive
print(f"constant P90 baseline pinball {torch.maximum(args.tau * err, (args.tau - 1) * err).mean():.3f}")
for epoch in range(args.epochs):
    model.train()
    order = torch.randperm(len(x_tr))
    total = 0.0
    for start in range(0, len(order), args.batch_size):
        idx = order[start:start + args.batch_size]
        pred = model(x_tr[idx]).squeeze(-1)
        loss = pinball(pred, y_tr[idx] / scale, args.tau)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(idx)
    if epoch % 6 == 0:
        report(f"epoch {epoch:2d} train {total / len(order):.4f}")
report("final")
