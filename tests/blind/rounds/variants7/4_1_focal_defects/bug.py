"""Rare surface defects on steel strips, tabular texture features, focal loss."""
import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class FocalLoss(nn.Module):
    def __init__(self, gamma=2.0, alpha=0.5):
        super().__init__()
        self.gamma, self.alpha = gamma, alpha

    def forward(self, logits, target):
        p = torch.sigmoid(logits)
        ce = nn.functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
        pt = p
        weight = self.alpha * target + (1 - self.alpha) * (1 - target)
        return (weight * (1 - pt) ** self.gamma * ce).mean()


def strips(n, seed):
    rng = np.random.default_rng(seed)
    defect = rng.random(n) < 0.06
    roughness = rng.gamma(4, 0.5, n) + 0.9 * defect
    contrast = rng.normal(1, 0.3, n) + 0.35 * defect
    edges = rng.poisson(6 + 5 * defect)
    entropy = 0.5 * contrast + rng.normal(4, 0.4, n)
    speed = rng.normal(90, 12, n)
    temperature = rng.normal(820, 25, n)
    spots = rng.poisson(1 + 2.5 * defect * (speed > 85))
    table = np.column_stack([roughness, contrast, edges, entropy, speed, temperature, spots])
    return table.astype(np.float32), defect.astype(np.float32)


class DefectNet(nn.Module):
    def __init__(self, n_in):
        super().__init__()
        self.fc1 = nn.Linear(n_in, 32)
        self.fc2 = nn.Linear(32, 16)
        self.fc3 = nn.Linear(16, 1)

    def forward(self, x):
        x = torch.relu(self.fc1(x))
        x = torch.relu(self.fc2(x))
        return self.fc3(x).squeeze(-1)


def f1_score(pred, true):
    tp = (pred & true).sum().item()
    return 2 * tp / max(pred.sum().item() + true.sum().item(), 1)


def run(args):
    torch.manual_seed(args.seed)
    x, y = strips(6000, args.seed)
    xt, yt = strips(4000, args.seed + 1)
    mu, sd = x.mean(0), x.std(0)
    x, xt = torch.from_numpy((x - mu) / sd), torch.from_numpy((xt - mu) / sd)
    y, yt = torch.from_numpy(y), torch.from_numpy(yt).bool()
    loader = DataLoader(TensorDataset(x, y), batch_size=args.batch, shuffle=True)
    model = DefectNet(x.shape[1])
    loss_fn = FocalLoss(gamma=args.gamma)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        model.train()
        seen, total = 0, 0.0
        for xb, yb in loader:
            loss = loss_fn(model(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            seen += len(xb)
            total += loss.item() * len(xb)
        print(f"epoch {epoch:2d} loss {total / seen:.5f}")
    model.eval()
    with torch.no_grad():
        pred = torch.sigmoid(model(xt)) > 0.5
    print(f"test_f1={f1_score(pred, yt):.4f}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=5)
    p.add_argument("--gamma", type=float, default=2.0)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--batch", type=int, default=100)
    p.add_argument("--epochs", type=int, default=12)
    run(p.parse_args())
