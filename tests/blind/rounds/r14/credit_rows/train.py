"""Probability of default with a small network; empty cells get the training mean."""
import csv
import os
import sys

import numpy as np
import torch
import torch.nn as nn


def read_table(path):
    with open(path, newline="") as fh:
        reader = csv.reader(fh)
        header = next(reader)
        table = np.array([[float(c) if c else np.nan for c in row] for row in reader], dtype=np.float64)
    y = header.index("defaulted")
    return np.delete(table, y, axis=1), table[:, y]


class Scaler:
    def fit(self, x):
        self.mean = np.nanmean(x, axis=0)
        self.std = np.nanstd(x, axis=0)
        return self

    def __call__(self, x):
        x = np.where(np.isnan(x), self.mean, x)
        return torch.from_numpy(((x - self.mean) / self.std).astype(np.float32))


def auc(score, label):
    rank = np.argsort(np.argsort(score)) + 1
    pos = label == 1
    return (rank[pos].sum() - pos.sum() * (pos.sum() + 1) / 2) / (pos.sum() * (~pos).sum())


def main():
    home = sys.argv[1]
    torch.manual_seed(1)
    raw, target = read_table(os.path.join(home, "applications.csv"))
    raw_hold, target_hold = read_table(os.path.join(home, "holdout.csv"))
    scale = Scaler().fit(raw)
    x, y = scale(raw), torch.from_numpy(target.astype(np.float32))
    net = nn.Sequential(nn.Linear(x.shape[1], 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1))
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-2)
    bce = nn.BCEWithLogitsLoss()
    for epoch in range(12):
        net.train()
        losses = []
        for idx in torch.randperm(len(x)).split(100):
            loss = bce(net(x[idx])[:, 0], y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        if epoch % 4 == 3:
            print(f"epoch {epoch + 1}: bce {np.mean(losses):.4f}")
    net.eval()
    with torch.no_grad():
        p = net(scale(raw_hold))[:, 0].numpy()
    print(f"holdout AUC {auc(p, target_hold):.3f}")


if __name__ == "__main__":
    main()
