"""Frost in the coming night, from the 18 h synoptic report of an orchard station."""
import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

COLUMNS = ("temp", "dew_point", "wind", "cloud")


class Scaler:
    def __init__(self, path):
        stats = json.loads(Path(path).read_text())
        self.mean = torch.tensor([stats[c]["mean"] for c in COLUMNS])
        self.std = torch.tensor([stats[c]["std"] for c in COLUMNS])

    def __call__(self, x):
        return (x - self.mean) / self.std


def load(path, scaler):
    table = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.float32)
    x = torch.from_numpy(table[:, :4])
    return TensorDataset(scaler(x), torch.from_numpy(table[:, 4]))


def skill(model, loader):
    model.eval()
    brier, hit, n, base, freq = 0.0, 0, 0, [], 0.0
    with torch.no_grad():
        for x, y in loader:
            p = torch.sigmoid(model(x).squeeze(1))
            brier += ((p - y) ** 2).sum().item()
            hit += ((p > 0.5).float() == y).sum().item()
            n += len(y)
            base.append(y)
    freq = torch.cat(base).mean().item()
    return hit / n, 1 - brier / n / (freq * (1 - freq))


def main():
    folder = Path(sys.argv[1])
    torch.manual_seed(9)
    scaler = Scaler(folder / "scaler.json")
    train = load(folder / "train.csv", scaler)
    val = load(folder / "val.csv", scaler)
    train_dl = DataLoader(train, batch_size=40, shuffle=True)
    val_dl = DataLoader(val, batch_size=200)
    model = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 1))
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    loss_fn = nn.BCEWithLogitsLoss()
    for epoch in range(12):
        model.train()
        total = 0.0
        for x, y in train_dl:
            loss = loss_fn(model(x).squeeze(1), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(x)
        acc, bss = skill(model, val_dl)
        print(f"epoch {epoch:2d} loss {total / len(train):.4f} val acc {acc:.3f} Brier skill {bss:.3f}")


if __name__ == "__main__":
    main()
