"""Hourly electricity load, one step ahead, from prepared feature tables.

usage: train.py FOLDER
FOLDER/history.csv  two years of prepared rows, for training and validation
FOLDER/live.csv     rows logged by the running service, one prediction per row
"""
import csv
import math
import os
import sys

import numpy as np
import torch
from torch import nn

INPUTS = ["temp", "load_lag24", "load_lag168", "load_ma7"]


def read(path):
    with open(path, newline="") as f:
        rows = list(csv.DictReader(f))
    hour = np.array([int(r["hour"]) for r in rows])
    dow = np.array([int(r["weekday"]) for r in rows])
    x = np.array([[float(r[c]) for c in INPUTS] for r in rows])
    cal = np.stack([np.sin(hour * math.pi / 12), np.cos(hour * math.pi / 12), (dow >= 5) * 1.0], 1)
    y = np.array([float(r["load"]) for r in rows])
    return np.concatenate([x, cal], 1), y


class Scaler:
    def __init__(self, a):
        self.m, self.s = a.mean(0), a.std(0)

    def __call__(self, a):
        return torch.tensor((a - self.m) / self.s, dtype=torch.float32)

    def back(self, z):
        return z * self.s + self.m


def make_model(d):
    return nn.Sequential(nn.Linear(d, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1))


def rmse(model, x, y, scale_y):
    model.eval()
    with torch.no_grad():
        pred = scale_y.back(model(x).squeeze(1).numpy())
    model.train()
    return float(np.sqrt(np.mean((pred - y) ** 2)))


def main():
    folder = sys.argv[1]
    torch.manual_seed(1)
    x, y = read(os.path.join(folder, "history.csv"))
    lx, ly = read(os.path.join(folder, "live.csv"))
    cut = int(0.85 * len(y))          # validation is the latest part
    sx, sy = Scaler(x[:cut]), Scaler(y[:cut])
    xt, yt = sx(x[:cut]), sy(y[:cut])
    xv, lx = sx(x[cut:]), sx(lx)
    model = make_model(x.shape[1])
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    sched = torch.optim.lr_scheduler.StepLR(opt, 5, 0.4)
    for epoch in range(15):
        total = 0.0
        for b in torch.randperm(cut).split(128):
            loss = nn.functional.huber_loss(model(xt[b]).squeeze(1), yt[b])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(b)
        sched.step()
        print(f"epoch {epoch:2d} loss {total / cut:.5f} valid RMSE {rmse(model, xv, y[cut:], sy):.2f} MW")
    print(f"persistence (same hour yesterday) on live {np.sqrt(np.mean((read(os.path.join(folder, 'live.csv'))[0][:, 1] - ly) ** 2)):.2f} MW")
    print(f"live RMSE {rmse(model, lx, ly, sy):.3f} MW")


if __name__ == "__main__":
    main()
