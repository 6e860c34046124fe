"""Predict residual clay moisture from a dryer/kiln log."""
import csv
import pathlib
import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

TARGET = "moisture"


def read(path):
    with open(path, newline="") as f:
        recs = list(csv.DictReader(f))
    names = [k for k in recs[0] if k != TARGET]
    x = np.array([[float(r[k]) for k in names] for r in recs], dtype=np.float32)
    y = np.array([float(r[TARGET]) for r in recs], dtype=np.float32)
    if not np.isfinite(x).all():
        raise ValueError(f"non-finite values in {path}")
    return names, x, y


class Regressor(nn.Module):
    def __init__(self, n_in, mean, std, hidden=64):
        super().__init__()
        self.register_buffer("mean", torch.from_numpy(mean))
        self.register_buffer("std", torch.from_numpy(std))
        self.body = nn.Sequential(nn.Linear(n_in, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(),
                                  nn.Linear(hidden, 1))

    def forward(self, x):
        return self.body((x - self.mean) / self.std).squeeze(1)


def mae(model, loader, y_mean, y_std):
    model.eval()
    err = n = 0
    with torch.no_grad():
        for x, y in loader:
            err += (model(x) * y_std + y_mean - y).abs().sum().item()
            n += len(y)
    return err / n


def main(folder):
    torch.manual_seed(0)
    names, x, y = read(folder / "train.csv")
    val_names, xv, yv = read(folder / "val.csv")
    assert names == val_names
    print(f"{len(y)} training rows, features: {', '.join(names)}")
    y_mean, y_std = float(y.mean()), float(y.std())
    train = DataLoader(TensorDataset(torch.from_numpy(x), torch.from_numpy(y)), batch_size=32, shuffle=True)
    val = DataLoader(TensorDataset(torch.from_numpy(xv), torch.from_numpy(yv)), batch_size=300)

    model = Regressor(len(names), x.mean(0), x.std(0))
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-3)
    epochs = 24
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs * len(train))
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for xb, yb in train:
            loss = nn.functional.mse_loss(model(xb), (yb - y_mean) / y_std)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            total += loss.item() * len(yb)
        if epoch % 4 == 3:
            print(f"epoch {epoch + 1:3d}  train mse {total / len(y):.4f}  val MAE {mae(model, val, y_mean, y_std):.3f}")
    trivial = np.abs(yv - np.median(y)).mean()
    print(f"final val MAE {mae(model, val, y_mean, y_std):.4f} % moisture (median {trivial:.3f})")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
