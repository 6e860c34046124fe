"""Retail credit: fit a default model on the booked loans, then score fresh applications."""
import csv
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn


@dataclass
class Config:
    folder: Path
    target: str = "defaulted"
    hidden: int = 24
    epochs: int = 12
    batch_size: int = 64
    lr: float = 2e-3
    weight_decay: float = 1e-4
    seed: int = 0


def read_table(path, target):
    with open(path, newline="") as f:
        rows = list(csv.DictReader(f))
    names = [c for c in rows[0] if c != target]
    x = np.array([[float(r[c]) for c in names] for r in rows], np.float32)
    y = np.array([float(r[target]) for r in rows], np.float32)
    for j, c in enumerate(names):
        if c in ("income", "amount"):
            x[:, j] = np.log(x[:, j])
    return names, x, y


def auc(score, y):
    order = torch.argsort(score)
    ranks = torch.empty(len(score))
    ranks[order] = torch.arange(1, len(score) + 1, dtype=torch.float32)
    pos = y.sum()
    return ((ranks[y == 1].sum() - pos * (pos + 1) / 2) / (pos * (len(y) - pos))).item()


class DefaultNet(nn.Module):
    def __init__(self, n_in, hidden):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


def train_epoch(model, opt, criterion, x, y, batch_size):
    model.train()
    total = 0.0
    for idx in torch.randperm(len(x)).split(batch_size):
        loss = criterion(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(idx)
    return total / len(x)


@torch.no_grad()
def evaluate(model, criterion, x, y):
    model.eval()
    out = model(x)
    return criterion(out, y).item(), auc(out, y)


def main():
    cfg = Config(Path(sys.argv[1]))
    torch.manual_seed(cfg.seed)
    names, x, y = read_table(cfg.folder / "train.csv", cfg.target)
    mu, sd = x.mean(0), x.std(0)
    prep = lambda x, y: (torch.from_numpy((x - mu) / sd), torch.from_numpy(y))
    train_x, train_y = prep(x, y)
    valid_x, valid_y = prep(*read_table(cfg.folder / "valid.csv", cfg.target)[1:])
    print(f"{len(train_x)} loans, features: {', '.join(names)}, default rate {y.mean():.3f}")

    model = DefaultNet(len(names), cfg.hidden)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)
    criterion = nn.BCEWithLogitsLoss()
    for epoch in range(1, cfg.epochs + 1):
        loss = train_epoch(model, opt, criterion, train_x, train_y, cfg.batch_size)
        val_loss, val_auc = evaluate(model, criterion, valid_x, valid_y)
        print(f"epoch {epoch:2d} train {loss:.4f} valid {val_loss:.4f} AUC {val_auc:.3f}")

    app_x, app_y = prep(*read_table(cfg.folder / "applications.csv", cfg.target)[1:])
    app_loss, app_auc = evaluate(model, criterion, app_x, app_y)
    print(f"applications scored at decision time: loss {app_loss:.4f} AUC {app_auc:.3f}")


if __name__ == "__main__":
    main()
