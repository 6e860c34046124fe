"""Predict who leaves from the HR/payroll extract; score the roster that the HR partners work with.

history.csv: last year's extract, outcome known.  roster.csv: staff at the start of the quarter, outcome filled in later.
"""
import csv
import json
import os
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def load_table(path, features, target):
    with open(path, newline="") as fh:
        rows = list(csv.DictReader(fh))
    x = torch.tensor([[float(r[f]) for f in features] for r in rows])
    y = torch.tensor([float(r[target]) for r in rows])
    return x, y


class LeaverNet(nn.Module):
    def __init__(self, n_in, hidden, dropout):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


def roc_auc(scores, y):
    pos, neg = scores[y == 1], scores[y == 0]
    diff = pos[:, None] - neg[None, :]
    return ((diff > 0).float() + 0.5 * (diff == 0).float()).mean().item()


@torch.no_grad()
def predict(model, x):
    model.eval()
    return model(x)


def main(folder):
    with open(os.path.join(folder, "config.json")) as fh:
        cfg = json.load(fh)
    torch.manual_seed(cfg["seed"])
    x, y = load_table(os.path.join(folder, "history.csv"), cfg["features"], cfg["target"])
    order = torch.randperm(len(x))
    cut = int(0.8 * len(x))
    tr, va = order[:cut], order[cut:]
    mean, std = x[tr].mean(0), x[tr].std(0)
    x = (x - mean) / std
    loader = DataLoader(TensorDataset(x[tr], y[tr]), batch_size=cfg["batch_size"], shuffle=True)
    print(f"{len(tr)} train rows, {len(va)} validation rows, {y.mean():.3f} left")

    model = LeaverNet(x.shape[1], cfg["hidden"], cfg["dropout"])
    opt = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=cfg["weight_decay"])
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg["epochs"])
    loss_fn = nn.BCEWithLogitsLoss()
    for epoch in range(cfg["epochs"]):
        model.train()
        total = 0.0
        for xb, yb in loader:
            loss = loss_fn(model(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(xb)
        sched.step()
        val = predict(model, x[va])
        print(f"epoch {epoch:2d} train bce {total / len(tr):.4f} val bce {loss_fn(val, y[va]):.4f} val auc {roc_auc(val, y[va]):.3f}")

    rx, ry = load_table(os.path.join(folder, "roster.csv"), cfg["features"], cfg["target"])
    print(f"roster auc {roc_auc(predict(model, (rx - mean) / std), ry):.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
