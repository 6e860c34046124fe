"""Fills gaps of one weather station from its neighbours at the same hour (files are in UTC)."""
import csv
import json
import math
import pathlib
import sys

import torch
from torch import nn

home = pathlib.Path(sys.argv[1])
net_cfg = json.loads((home / "network.json").read_text())
FIELDS = ("temp_c", "wind_ms", "rh_pct")
torch.manual_seed(66)


def table(part):
    by_hour = {}
    for s in net_cfg["stations"]:
        with open(home / f"{s}_{part}.csv") as f:
            for row in csv.DictReader(f):
                by_hour.setdefault(int(row["hour"]), {})[s] = [float(row[c]) for c in FIELDS]
    xs, ys = [], []
    for hour, at in sorted(by_hour.items()):
        if len(at) < len(net_cfg["stations"]):
            continue
        a = 2 * math.pi * (hour % 24) / 24
        xs.append([v for s in net_cfg["neighbours"] for v in at[s]] + [math.sin(a), math.cos(a)])
        ys.append(at[net_cfg["target"]][0])
    return torch.tensor(xs), torch.tensor(ys)


xtr, ytr = table("train")
xte, yte = table("test")
mu, sd = xtr.mean(0), xtr.std(0)
ym, ysd = ytr.mean(), ytr.std()
xtr, xte = (xtr - mu) / sd, (xte - mu) / sd

model = nn.Sequential(nn.Linear(xtr.shape[1], 40), nn.Tanh(), nn.Linear(40, 1))
opt = torch.optim.AdamW(model.parameters(), lr=net_cfg["lr"], weight_decay=1e-3)
for epoch in range(net_cfg["epochs"]):
    total = 0.0
    for idx in torch.randperm(len(xtr)).split(48):
        loss = nn.functional.mse_loss(model(xtr[idx]).squeeze(1), (ytr[idx] - ym) / ysd)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(idx)
    if epoch % 3 == 2:
        print(f"epoch {epoch + 1} mse {total / len(xtr):.5f}")
with torch.no_grad():
    p = model(xte).squeeze(1) * ysd + ym
print(f"{net_cfg['target']}: test RMSE {(p - yte).pow(2).mean().sqrt():.3f} deg C, bias {(p - yte).mean():+.3f}")
