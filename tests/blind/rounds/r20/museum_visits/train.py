#!/usr/bin/env python
"""Daily visitor model for a city museum. Usage: train.py DATA_DIR"""
import csv
import datetime as dt
import math
import os
import sys

import torch
from torch import nn

SEED, EPOCHS, BATCH = 42, 45, 32


def calendar_features(day):
    doy = day.timetuple().tm_yday
    feats = []
    for k in (1, 2, 3, 4):
        feats += [math.sin(2 * math.pi * k * doy / 365.25), math.cos(2 * math.pi * k * doy / 365.25)]
    feats += [float(day.weekday() == w) for w in range(7)]
    feats.append(float(day.month == 12 and day.day > 20))
    return feats


def load(path):
    xs, ys = [], []
    with open(path, newline="") as f:
        for row in csv.DictReader(f):
            day = dt.date.fromisoformat(row["date"])
            xs.append(calendar_features(day) + [float(row["rain"]), float(row["special_exhibit"])])
            ys.append(float(row["visitors"]))
    return torch.tensor(xs), torch.tensor(ys)


class VisitorModel(nn.Module):
    def __init__(self, n_in):
        super().__init__()
        self.linear = nn.Linear(n_in, 1)
        self.deep = nn.Sequential(nn.Linear(n_in, 48), nn.ReLU(), nn.Dropout(0.05), nn.Linear(48, 48), nn.ReLU(),
                                  nn.Linear(48, 1))

    def forward(self, x):
        return (self.linear(x) + self.deep(x)).squeeze(1)


def evaluate(model, x, y, scale):
    model.eval()
    with torch.no_grad():
        pred = model(x) * scale[1] + scale[0]
    return (pred - y).abs().mean().item()


def main():
    folder = sys.argv[1]
    torch.manual_seed(SEED)
    x, y = load(os.path.join(folder, "history.csv"))
    xv, yv = load(os.path.join(folder, "recent.csv"))
    scale = (y.mean(), y.std())
    z = (y - scale[0]) / scale[1]

    model = VisitorModel(x.shape[1])
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [25, 38], gamma=0.3)
    criterion = nn.MSELoss()
    for epoch in range(EPOCHS):
        model.train()
        order = torch.randperm(len(x))
        epoch_loss = 0.0
        for start in range(0, len(order), BATCH):
            idx = order[start:start + BATCH]
            optimizer.zero_grad()
            loss = criterion(model(x[idx]), z[idx])
            loss.backward()
            optimizer.step()
            epoch_loss += loss.item() * len(idx)
        scheduler.step()
        if (epoch + 1) % 9 == 0:
            print(f"epoch {epoch + 1}: train mse {epoch_loss / len(x):.4f}, val MAE {evaluate(model, xv, yv, scale):.1f}")
    naive = (yv - y.mean()).abs().mean().item()
    print(f"validation MAE {evaluate(model, xv, yv, scale):.2f} visitors (mean {naive:.1f})")


if __name__ == "__main__":
    main()
