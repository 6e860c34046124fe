import csv
import json
import math
import os
import sys

import torch
from torch import nn

folder = sys.argv[1]
cfg = json.load(open(os.path.join(folder, "columns.json")))
torch.manual_seed(0)

rows = list(csv.DictReader(open(os.path.join(folder, "samples.csv"))))
year = torch.tensor([int(r["year"]) for r in rows])
is_test = year == cfg["test_year"]


def column(name):
    return torch.tensor([float(r[name]) if r[name] else math.nan for r in rows])


feats = []
for name in cfg["numeric"]:
    v = column(name)
    missing = v.isnan()
    known = v[~is_test & ~missing]
    v = torch.where(missing, known.median(), v)
    feats.append((v - known.mean()) / known.std())
    if missing.any():
        feats.append(missing.float())
m = column("month") * 2 * math.pi / 12
X = torch.stack(feats + [m.sin(), m.cos()], 1)
y = column(cfg["target"])
y_mu, y_sd = y[~is_test].mean(), y[~is_test].std()

net = nn.Sequential(nn.Linear(X.shape[1], 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))
opt = torch.optim.Adam(net.parameters(), lr=cfg["lr"])
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg["epochs"])
Xtr, ytr = X[~is_test], ((y - y_mu) / y_sd)[~is_test]
for epoch in range(cfg["epochs"]):
    total = 0.0
    for idx in torch.randperm(len(Xtr)).split(cfg["batch"]):
        loss = nn.functional.mse_loss(net(Xtr[idx]).squeeze(1), ytr[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(idx)
    sched.step()
    if epoch % 6 == 5:
        print(f"epoch {epoch + 1} train mse {total / len(Xtr):.4f}")

with torch.no_grad():
    pred = net(X[is_test]).squeeze(1) * y_sd + y_mu
err = pred - y[is_test]
print(f"{cfg['test_year']}: RMSE {err.pow(2).mean().sqrt():.3f} mg/l, MAE {err.abs().mean():.3f} (spread of the target {y[is_test].std():.3f})")
