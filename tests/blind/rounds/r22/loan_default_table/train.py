"""Credit scoring: fits on past applications, reports the AUC on this year's applications."""
import csv
import os
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
np.random.seed(0)

HOME = sys.argv[1]
TARGET = "default"
LOG_COLUMNS = ("income", "months_employed")


def read_table(path):
    with open(path, newline="") as f:
        rows = list(csv.DictReader(f))
    names = [c for c in rows[0] if c != TARGET]
    x = np.array([[float(r[c]) for c in names] for r in rows], dtype=np.float32)
    for c in LOG_COLUMNS:
        j = names.index(c)
        x[:, j] = np.log1p(x[:, j])
    y = np.array([float(r[TARGET]) for r in rows], dtype=np.float32)
    return names, x, y


def auc(score, y):
    order = np.argsort(score, kind="stable")
    rank = np.empty(len(score))
    rank[order] = np.arange(1, len(score) + 1)
    pos = y == 1
    n1, n0 = pos.sum(), (~pos).sum()
    return (rank[pos].sum() - n1 * (n1 + 1) / 2) / (n1 * n0)


class Scorecard(nn.Module):
    def __init__(self, n_features):
        super().__init__()
        self.hidden1 = nn.Linear(n_features, 48)
        self.hidden2 = nn.Linear(48, 24)
        self.score = nn.Linear(24, 1)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        x = self.drop(F.relu(self.hidden1(x)))
        x = self.drop(F.relu(self.hidden2(x)))
        return self.score(x).squeeze(1)


def predict(model, x):
    model.eval()
    with torch.no_grad():
        return torch.sigmoid(model(x)).numpy()


def main():
    names, x, y = read_table(os.path.join(HOME, "applications_2019_2023.csv"))
    _, x_now, y_now = read_table(os.path.join(HOME, "applications_2024.csv"))
    perm = np.random.permutation(len(x))
    cut = int(0.85 * len(x))
    tr, va = perm[:cut], perm[cut:]
    mean, std = x[tr].mean(0), x[tr].std(0)
    x, x_now = [torch.from_numpy((a - mean) / std) for a in (x, x_now)]
    y_t = torch.from_numpy(y)
    print("features:", ", ".join(names))

    model = Scorecard(len(names))
    opt = torch.optim.AdamW(model.parameters(), lr=1.5e-3, weight_decay=1e-3)
    for epoch in range(12):
        model.train()
        np.random.shuffle(tr)
        losses = []
        for start in range(0, len(tr), 64):
            idx = torch.from_numpy(tr[start:start + 64])
            loss = F.binary_cross_entropy_with_logits(model(x[idx]), y_t[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        val = auc(predict(model, x[va]), y[va])
        print(f"epoch {epoch:2d} loss {np.mean(losses):.4f} validation auc {val:.4f}")
    print(f"AUC on 2024 applications: {auc(predict(model, x_now), y_now):.4f}")


if __name__ == "__main__":
    main()
