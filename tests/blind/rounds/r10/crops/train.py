"""Wheat yield per field from weather, soil and management; trained over several counties."""
import glob
import os
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import yaml
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Settings:
    features: list
    target: str
    train_glob: str
    valid_file: str
    hidden: int
    lr: float
    weight_decay: float
    batch_size: int
    epochs: int
    seed: int

    @classmethod
    def load(cls, path):
        with open(path) as f:
            return cls(**yaml.safe_load(f))


class Standardiser:
    def fit(self, a):
        self.mean, self.std = a.mean(0), a.std(0)
        return self

    def __call__(self, a):
        return (a - self.mean) / self.std

    def back(self, a):
        return a * self.std + self.mean


class YieldNet(nn.Module):
    def __init__(self, n_in, hidden):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(n_in, hidden), nn.GELU(),
            nn.Linear(hidden, hidden), nn.GELU(),
            nn.Linear(hidden, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


def read_counties(pattern):
    parts = []
    for path in sorted(glob.glob(pattern)):
        part = pd.read_csv(path)
        part["county"] = os.path.splitext(os.path.basename(path))[0]
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def arrays(table, cfg):
    return (table[cfg.features].to_numpy(np.float32), table[cfg.target].to_numpy(np.float32))


@torch.no_grad()
def report(model, x, y, y_scale):
    model.eval()
    pred = y_scale.back(model(x).numpy())
    err = pred - y
    return float(np.sqrt((err ** 2).mean())), float(1 - (err ** 2).mean() / y.var())


def main():
    cfg = Settings.load("config.yaml")
    torch.manual_seed(cfg.seed)
    train = read_counties(cfg.train_glob)
    valid = pd.read_csv(cfg.valid_file)
    print(f"{len(train)} fields from {train['county'].nunique()} counties, {len(valid)} validation fields")

    x, y = arrays(train, cfg)
    xv, yv = arrays(valid, cfg)
    x_scale, y_scale = Standardiser().fit(x), Standardiser().fit(y)
    data = TensorDataset(torch.from_numpy(x_scale(x)), torch.from_numpy(y_scale(y)))
    loader = DataLoader(data, batch_size=cfg.batch_size, shuffle=True)
    xv = torch.from_numpy(x_scale(xv))

    model = YieldNet(len(cfg.features), cfg.hidden)
    loss_fn = nn.MSELoss()
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg.epochs)
    for epoch in range(1, cfg.epochs + 1):
        model.train()
        total = 0.0
        for xb, yb in loader:
            opt.zero_grad()
            loss = loss_fn(model(xb), yb)
            loss.backward()
            opt.step()
            total += loss.item() * len(yb)
        sched.step()
        if epoch % 3 == 0 or epoch == 1:
            rmse, r2 = report(model, xv, yv, y_scale)
            print(f"epoch {epoch:2d}  train mse {total / len(data):.4f}  val RMSE {rmse:.3f} t/ha  val R2 {r2:.3f}")
    torch.save(model.state_dict(), "yield.pt")


if __name__ == "__main__":
    main()
