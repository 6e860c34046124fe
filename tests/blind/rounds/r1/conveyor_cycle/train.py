"""Conveyor motor current from cycle position and load; timestamps give the position in the 40 s cycle."""
import json
import sys
from pathlib import Path
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

CYCLE_S = 40.0


class Recording:
    def __init__(self, path):
        table = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.float32)
        self.time, self.load, self.temp, self.current = table.T

    def features(self):
        angle = 2 * np.pi * (self.time % np.float32(CYCLE_S)) / CYCLE_S
        columns = [np.sin(angle), np.cos(angle), np.sin(2 * angle), np.cos(2 * angle), self.load, self.temp]
        return torch.tensor(np.stack(columns, 1).astype(np.float32)), torch.tensor(self.current)


def fit(model, optimizer, x, y, epochs, batch_size, on_epoch):
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(batch_size):
            loss = F.smooth_l1_loss(model(x[idx]).squeeze(1), y[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
        on_epoch(epoch, total / len(x))


def main(folder):
    cfg = json.loads((folder / "config.json").read_text())
    torch.manual_seed(cfg["seed"])
    x_train, y_train = Recording(folder / "monday.csv").features()
    x_val, y_val = Recording(folder / "tuesday.csv").features()
    mean, std = x_train.mean(0), x_train.std(0) + 1e-3
    x_train, x_val = (x_train - mean) / std, (x_val - mean) / std
    y_mean, y_std = y_train.mean(), y_train.std()
    model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg["lr"])

    def report(epoch, train_loss):
        if epoch % 5 != 4:
            return
        model.eval()
        with torch.no_grad():
            pred = model(x_val).squeeze(1) * y_std + y_mean
        r2 = 1 - ((pred - y_val) ** 2).mean() / y_val.var()
        print(f"epoch {epoch:2d} train {train_loss:.4f} val MAE {(pred - y_val).abs().mean():.3f} A R2 {r2:.3f}")

    fit(model, optimizer, x_train, (y_train - y_mean) / y_std, cfg["epochs"], cfg["batch_size"], report)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
