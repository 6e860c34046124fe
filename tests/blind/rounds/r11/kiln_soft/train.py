"""Soft sensor for product moisture from hourly kiln readings; the lab values are joined on the hour."""
import csv
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

W = 6
home = Path(sys.argv[1])
torch.manual_seed(1)


def table(path):
    with open(path) as f:
        rows = list(csv.reader(f))[1:]
    return {r[0]: [float(v) for v in r[1:]] for r in rows}


sensors, lab = table(home / "sensors.csv"), table(home / "lab.csv")
times = sorted(sensors)
readings = np.array([sensors[t] for t in times], dtype=np.float32)
X, Y = [], []
for i in range(W - 1, len(times)):
    if times[i] in lab:
        X.append(readings[i - W + 1:i + 1])
        Y.append(lab[times[i]][0])
X, Y = torch.from_numpy(np.stack(X)), torch.tensor(Y)
print("joined", len(Y), "of", len(lab), "lab values")

n_tr = int(0.85 * len(Y))
xtr, ytr, xva, yva = X[:n_tr], Y[:n_tr], X[n_tr + W:], Y[n_tr + W:]
mu, sd = xtr.mean((0, 1)), xtr.std((0, 1))
ym, ys = ytr.mean(), ytr.std()


class TCN(nn.Module):
    def __init__(self, c=24):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(4, c, 3), nn.ReLU(), nn.Conv1d(c, c, 3), nn.ReLU())
        self.out = nn.Sequential(nn.Linear(c * (W - 4) + 4, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        x = (x - mu) / sd
        h = self.conv(x.transpose(1, 2)).flatten(1)
        return self.out(torch.cat([h, x[:, -1]], 1)).squeeze(1)


def r2(model, x, y):
    model.eval()
    with torch.no_grad():
        p = model(x) * ys + ym
    return 1 - ((p - y) ** 2).sum().item() / ((y - y.mean()) ** 2).sum().item()


model = TCN()
opt = torch.optim.RMSprop(model.parameters(), lr=1e-3)
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=2)
best, keep = -1e9, None
for epoch in range(16):
    model.train()
    total = 0.0
    for idx in torch.randperm(n_tr).split(64):
        loss = nn.functional.huber_loss(model(xtr[idx]), (ytr[idx] - ym) / ys)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(idx)
    v = r2(model, xva, yva)
    plateau.step(-v)
    if v > best:
        best, keep = v, {k: p.clone() for k, p in model.state_dict().items()}
    print(f"epoch {epoch} huber {total / n_tr:.4f} val R2 {v:.3f}")

model.load_state_dict(keep)
acc = np.load(home / "acceptance.npz")
print(f"acceptance R2 {r2(model, torch.from_numpy(acc['windows']), torch.from_numpy(acc['moisture'])):.4f}")
