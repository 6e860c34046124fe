"""Probability of default from application data. Usage: train.py FOLDER"""
import csv
import sys

import torch
from torch import nn

HOMES = ["RENT", "OWN", "MORTGAGE"]
folder = sys.argv[1]
torch.manual_seed(12)


def read(name):
    rows = list(csv.DictReader(open(f"{folder}/{name}")))
    numeric = [c for c in rows[0] if c not in ("loan_id", "home", "default")]
    x = torch.tensor([[float(r[c]) for c in numeric] + [float(r["home"] == h) for h in HOMES] for r in rows])
    y = torch.tensor([float(r["default"]) for r in rows])
    return x, y


def auc(score, y):
    order = score.argsort()
    rank = torch.empty_like(score)
    rank[order] = torch.arange(1, len(score) + 1, dtype=score.dtype)
    pos = y.sum()
    neg = len(y) - pos
    return ((rank[y == 1].sum() - pos * (pos + 1) / 2) / (pos * neg)).item()


x, y = read("history.csv")
perm = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
tr, va = perm[:3200], perm[3200:]
mu, sd = x[tr].mean(0), x[tr].std(0)
x = (x - mu) / sd
x_new, y_new = read("recent_applications.csv")
x_new = (x_new - mu) / sd

model = nn.Sequential(nn.Linear(x.shape[1], 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
bce = nn.BCEWithLogitsLoss()

for epoch in range(10):
    model.train()
    shuffled = tr[torch.randperm(len(tr))]
    total = 0.0
    for b in shuffled.split(64):
        loss = bce(model(x[b]).squeeze(1), y[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(b)
    model.eval()
    with torch.no_grad():
        v = auc(model(x[va]).squeeze(1), y[va])
    print(f"epoch {epoch} loss {total / len(tr):.4f} valid auc {v:.4f}")

with torch.no_grad():
    print(f"auc on recent applications {auc(model(x_new).squeeze(1), y_new):.4f}")
