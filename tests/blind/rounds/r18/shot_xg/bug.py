"""Expected goals: probability that a shot becomes a goal, from its place, body part, assist and pressure."""
import argparse
import numpy as np
import torch
from torch import nn


def make_shots(n, rng):
    x = 120 - rng.gamma(2.2, 6.5, n).clip(1, 45)
    y = 40 + rng.normal(0, 9, n)
    dist = np.hypot(120 - x, 40 - y)
    angle = np.arctan2(7.32 * (120 - x), (120 - x) ** 2 + (40 - y) ** 2 - 3.66 ** 2)
    angle = np.where(angle < 0, angle + np.pi, angle)
    header = rng.random(n) < 0.18
    through = rng.random(n) < 0.12
    defenders = rng.poisson(1.2 + 0.06 * dist)
    keeper_off = rng.exponential(1.5, n)
    logit = -1.9 + 2.6 * angle - 0.07 * dist - 1.1 * header + 0.8 * through - 0.3 * defenders + 0.35 * keeper_off
    goal = rng.random(n) < 1 / (1 + np.exp(-logit))
    cols = np.stack([dist, angle, header, through, defenders, keeper_off, np.abs(40 - y)], 1)
    return cols.astype(np.float32), goal.astype(np.float32)


def build(n_in, hidden):
    return nn.Sequential(
        nn.Linear(n_in, hidden), nn.ReLU(),
        nn.Linear(hidden, hidden), nn.ReLU(),
        nn.Linear(hidden, 1), nn.Sigmoid(),
    )


def log_loss(p, y):
    p = p.clamp(1e-6, 1 - 1e-6)
    return -(y * p.log() + (1 - y) * (1 - p).log()).mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--hidden", type=int, default=32)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--batch", type=int, default=128)
    a = ap.parse_args()
    torch.manual_seed(3)
    rng = np.random.default_rng(3)
    X, y = make_shots(14000, rng)
    mu, sd = X[:10000].mean(0), X[:10000].std(0)
    X, y = torch.from_numpy((X - mu) / sd), torch.from_numpy(y)
    Xtr, ytr, Xte, yte = X[:10000], y[:10000], X[10000:], y[10000:]
    model = build(X.shape[1], a.hidden)
    criterion = nn.BCEWithLogitsLoss()
    opt = torch.optim.Adam(model.parameters(), lr=a.lr)
    for ep in range(a.epochs):
        tot, nb = 0.0, 0
        for idx in torch.randperm(len(Xtr)).split(a.batch):
            opt.zero_grad()
            loss = criterion(model(Xtr[idx]).squeeze(1), ytr[idx])
            loss.backward()
            opt.step()
            tot, nb = tot + loss.item(), nb + 1
        print(f"epoch {ep + 1}: train loss {tot / nb:.4f}")
    with torch.no_grad():
        p = model(Xte).squeeze(1)
    base = log_loss(torch.full_like(yte, ytr.mean().item()), yte)
    print(f"goals {yte.sum():.0f}, expected goals {p.sum():.1f}")
    print(f"test log loss {log_loss(p, yte):.4f} (constant rate: {base:.4f})")


if __name__ == "__main__":
    main()
