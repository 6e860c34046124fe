"""30-day readmission risk. Usage: python train.py FOLDER"""
import csv
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

folder = Path(sys.argv[1])
LABEL = "readmitted"
EPOCHS = 12


def load(name):
    with open(folder / f"{name}.csv", newline="") as f:
        rows = list(csv.DictReader(f))
    cols = [c for c in rows[0] if c != LABEL]
    x = np.array([[float(r[c]) for c in cols] for r in rows], dtype=np.float32)
    y = np.array([int(r[LABEL]) for r in rows], dtype=np.float32)
    return torch.from_numpy(x), torch.from_numpy(y), cols


def auc(score, y):
    """Probability that a readmitted patient ranks above another one."""
    rank = torch.empty(len(score))
    rank[score.argsort()] = torch.arange(1, len(score) + 1, dtype=torch.float32)
    pos = y.sum().item()
    neg = len(y) - pos
    return ((rank[y == 1].double().sum().item()) - pos * (pos + 1) / 2) / (pos * neg)


class Risk(nn.Module):
    def __init__(self, n_in, mu, sd):
        super().__init__()
        self.register_buffer("mu", mu)
        self.register_buffer("sd", sd)
        self.net = nn.Sequential(
            nn.Linear(n_in, 32), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(32, 16), nn.ReLU(),
            nn.Linear(16, 1),
        )

    def forward(self, x):
        return self.net((x - self.mu) / self.sd).squeeze(-1)


def score(model, x):
    model.eval()
    with torch.no_grad():
        return model(x)


def main():
    torch.manual_seed(0)
    x, y, cols = load("train")
    xv, yv, _ = load("valid")
    xl, yl, _ = load("live")
    print(f"{len(x)} stays, {len(cols)} columns, {y.mean():.2f} readmitted")

    model = Risk(len(cols), x.mean(0), x.std(0))
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    for epoch in range(EPOCHS):
        model.train()
        losses = []
        for idx in torch.randperm(len(x)).split(64):
            loss = F.binary_cross_entropy_with_logits(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        if epoch % 4 == 3:
            print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}  valid AUC {auc(score(model, xv), yv):.4f}")
    print(f"AUC on live patients: {auc(score(model, xl), yl):.4f}")


if __name__ == "__main__":
    main()
