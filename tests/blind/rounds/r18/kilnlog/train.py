"""Porosity of fired ware from the kiln log.  usage: python train.py FOLDER"""
import csv
import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

NUM = ["quartz_pct", "feldspar_pct", "ramp_c_per_h", "peak_temp", "soak_min", "cool_c_per_h"]


def read(path):
    with open(path) as fh:
        rows = list(csv.DictReader(fh))
    x = torch.tensor([[float(r[c]) for c in NUM] + [float(r["clay"] == "porcelain")] for r in rows])
    y = torch.tensor([[float(r["porosity_pct"])] for r in rows])
    return x, y


def main(folder):
    torch.manual_seed(1)
    x, y = read(folder / "firings_2023.csv")
    xt, yt = read(folder / "firings_2024.csv")
    mx, sx, my, sy = x.mean(0), x.std(0), y.mean(), y.std()
    net = nn.Sequential(nn.Linear(x.size(1), 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    opt = torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=1e-3)
    loader = DataLoader(TensorDataset((x - mx) / sx, (y - my) / sy), batch_size=50, shuffle=True)
    epochs = 24
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    for ep in range(1, epochs + 1):
        tot = 0.0
        for xb, yb in loader:
            loss = nn.functional.mse_loss(net(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item()
        sched.step()
        if ep % 6 == 0:
            print(f"epoch {ep} mse {tot / len(loader):.4f}")
    with torch.no_grad():
        pred = net((xt - mx) / sx) * sy + my
    print(f"2024 firings: MAE {(pred - yt).abs().mean():.3f} porosity points (sd {yt.std():.2f})")


main(Path(sys.argv[1]))
