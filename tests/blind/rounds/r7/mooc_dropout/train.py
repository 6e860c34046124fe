"""Early warning after week 1 of a ten-week course: who will drop out?"""
import csv
import json
import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

folder = Path(sys.argv[1])
cfg = json.loads((folder / "config.json").read_text())
torch.manual_seed(cfg["seed"])


def read_table(path):
    with open(path, newline="") as f:
        records = list(csv.DictReader(f))
    x = torch.tensor([[float(r[c]) for c in cfg["features"]] for r in records])
    y = torch.tensor([float(r[cfg["target"]]) for r in records])
    return x, y


def auc(score, label):
    rank = torch.empty(len(score))
    rank[score.argsort()] = torch.arange(1.0, len(score) + 1)
    pos = label > 0.5
    n1, n0 = pos.sum(), (~pos).sum()
    return ((rank[pos].sum() - n1 * (n1 + 1) / 2) / (n1 * n0)).item()


x_train, y_train = read_table(folder / "train.csv")
x_valid, y_valid = read_table(folder / "valid.csv")
mean, std = x_train.mean(0), x_train.std(0)
x_train, x_valid = (x_train - mean) / std, (x_valid - mean) / std
print(f"{len(y_train)} students for training, dropout rate {y_train.mean():.2f}, features: {', '.join(cfg['features'])}")

model = nn.Sequential(
    nn.Linear(x_train.size(1), cfg["hidden"]), nn.ReLU(), nn.Dropout(0.2),
    nn.Linear(cfg["hidden"], cfg["hidden"]), nn.ReLU(), nn.Linear(cfg["hidden"], 1))
loss_fn = nn.BCEWithLogitsLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=1e-2)
loader = DataLoader(TensorDataset(x_train, y_train), batch_size=cfg["batch_size"], shuffle=True)

for epoch in range(cfg["epochs"]):
    model.train()
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x).squeeze(1), y)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(y)
    model.eval()
    with torch.no_grad():
        logit = model(x_valid).squeeze(1)
        val = loss_fn(logit, y_valid).item()
    print(f"epoch {epoch:2d}  train {total / len(y_train):.4f}  valid {val:.4f}  valid auc {auc(logit, y_valid):.3f}")
