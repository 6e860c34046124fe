"""Travel delay on a motorway section from detector readings (MLP regression)."""
import csv
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FEATURES = ["hour", "flow", "occupancy", "speed", "ramp_flow"]
TARGET = "delay_s"


def read_table(path):
    with open(path) as f:
        rows = list(csv.DictReader(f))
    x = np.array([[float(r[c]) for c in FEATURES] for r in rows], dtype=np.float32)
    y = np.array([float(r[TARGET]) for r in rows], dtype=np.float32)
    return torch.from_numpy(x), torch.from_numpy(y)


def evaluate(model, loader, y_mean, y_std):
    model.eval()
    err, truth = [], []
    with torch.no_grad():
        for x, y in loader:
            pred = model(x).squeeze(1) * y_std + y_mean
            err.append(pred - y)
            truth.append(y)
    err, truth = torch.cat(err), torch.cat(truth)
    r2 = 1 - (err ** 2).sum() / ((truth - truth.mean()) ** 2).sum()
    return err.abs().mean().item(), r2.item()


def main():
    folder = Path(sys.argv[1])
    torch.manual_seed(3)
    x, y = read_table(folder / "train.csv")
    xv, yv = read_table(folder / "val.csv")
    mean, std = x.mean(0), x.std(0)
    y_mean, y_std = y.mean(), y.std()
    train = DataLoader(TensorDataset((x - mean) / std, y), batch_size=50, shuffle=True)
    val = DataLoader(TensorDataset((xv - mean) / std, yv), batch_size=250)

    model = nn.Sequential(nn.Linear(len(FEATURES), 48), nn.ReLU(),
                          nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(15):
        model.train()
        total = 0.0
        for xb, yb in train:
            loss = nn.functional.mse_loss(model(xb).squeeze(1), (yb - y_mean) / y_std)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(xb)
        mae, r2 = evaluate(model, val, y_mean, y_std)
        print(f"epoch {epoch:2d} train {total / len(x):.4f} val MAE {mae:.2f} s R2 {r2:.3f}")


if __name__ == "__main__":
    main()
