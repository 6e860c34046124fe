"""Will a loan come back late? Tabular MLP with embeddings for the categories."""
import csv
import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn


class LoanTable:
    def __init__(self, path, cfg):
        with open(path, newline="") as f:
            rows = list(csv.DictReader(f))
        self.num = np.array([[float(r[c]) for c in cfg["numeric"]] for r in rows])
        self.levels = [sorted({r[c] for r in rows}) for c in cfg["category"]]
        self.cat = np.array([[lv.index(r[c]) for c, lv in zip(cfg["category"], self.levels)] for r in rows])
        self.y = np.array([float(r[cfg["label"]]) for r in rows])

    def fit_scaler(self, idx):
        self.mean, self.std = self.num[idx].mean(0), self.num[idx].std(0)

    def tensors(self, idx):
        num = (self.num[idx] - self.mean) / self.std
        return (torch.tensor(num, dtype=torch.float32), torch.tensor(self.cat[idx]),
                torch.tensor(self.y[idx], dtype=torch.float32))


class LateNet(nn.Module):
    def __init__(self, n_num, levels, hidden, dropout):
        super().__init__()
        self.embs = nn.ModuleList([nn.Embedding(len(lv), 3) for lv in levels])
        self.mlp = nn.Sequential(
            nn.Linear(n_num + 3 * len(levels), hidden), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, 1))

    def forward(self, num, cat):
        parts = [num] + [e(cat[:, j]) for j, e in enumerate(self.embs)]
        return self.mlp(torch.cat(parts, dim=1)).squeeze(1)


def auc(score, y):
    rank = torch.empty(len(score))
    rank[score.argsort()] = torch.arange(1, len(score) + 1, dtype=torch.float32)
    pos = y.sum()
    return ((rank[y == 1].sum() - pos * (pos + 1) / 2) / (pos * (len(y) - pos))).item()


def fit(folder):
    cfg = json.loads((folder / "config.json").read_text())
    torch.manual_seed(cfg["seed"])
    table = LoanTable(folder / "loans.csv", cfg)
    order = np.random.default_rng(cfg["seed"]).permutation(len(table.y))
    n_val = int(cfg["val_share"] * len(order))
    table.fit_scaler(order[n_val:])
    num, cat, y = table.tensors(order[n_val:])
    vnum, vcat, vy = table.tensors(order[:n_val])
    model = LateNet(num.shape[1], table.levels, cfg["hidden"], cfg["dropout"])
    opt = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=cfg["weight_decay"])
    bce = nn.BCEWithLogitsLoss()
    for epoch in range(cfg["epochs"]):
        model.train()
        total = 0.0
        for b in torch.randperm(len(y)).split(cfg["batch"]):
            loss = bce(model(num[b], cat[b]), y[b])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(b)
        model.eval()
        with torch.no_grad():
            out = model(vnum, vcat)
        print(f"epoch {epoch:2d} | train {total / len(y):.4f} | val {bce(out, vy).item():.4f} | auc {auc(out, vy):.4f}")
    return model, table, cfg


if __name__ == "__main__":
    fit(Path(sys.argv[1]))
