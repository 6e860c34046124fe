"""Insulin requirement of the next day from bedside measurements (two-hospital cohort)."""
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn


@dataclass
class Settings:
    inputs: tuple = ("glucose", "creatinine", "lactate", "heart_rate", "map", "age", "steroid")
    target: str = "insulin_units"
    hidden: int = 48
    epochs: int = 9
    batch: int = 60
    lr: float = 3e-3
    val_fraction: float = 0.25
    seed: int = 13


@dataclass
class Split:
    x: Tensor
    y: Tensor

    def batches(self, size):
        for idx in torch.randperm(len(self.x)).split(size):
            yield self.x[idx], self.y[idx]


class Standardizer:
    def __init__(self, values):
        self.mean, self.std = values.mean(0), values.std(0)

    def forward(self, v):
        return (v - self.mean) / self.std

    def back(self, v):
        return v * self.std + self.mean


def load(path, s):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    x = np.array([[r[k] for k in s.inputs] for r in rows], dtype=np.float32)
    y = np.array([r[s.target] for r in rows], dtype=np.float32)
    order = np.random.default_rng(s.seed).permutation(len(x))
    n_val = int(len(x) * s.val_fraction)
    val, train = order[:n_val], order[n_val:]
    sx, sy = Standardizer(x[train]), Standardizer(y[train])
    pack = lambda i: Split(torch.from_numpy(sx.forward(x[i])), torch.from_numpy(sy.forward(y[i])))
    return pack(train), pack(val), sy


class DoseNet(nn.Module):
    def __init__(self, n_in, hidden):
        super().__init__()
        self.skip = nn.Linear(n_in, 1)
        self.body = nn.Sequential(nn.Linear(n_in, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU())
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        return (self.skip(x) + self.out(self.body(x))).squeeze(-1)


@torch.no_grad()
def scores(model, split, sy):
    model.eval()
    pred, y = sy.back(model(split.x)), sy.back(split.y)
    mae = (pred - y).abs().mean().item()
    r2 = 1 - (pred - y).pow(2).sum() / (y - y.mean()).pow(2).sum()
    return mae, r2.item()


def main(folder):
    s = Settings()
    torch.manual_seed(s.seed)
    train, val, sy = load(folder / "records.jsonl", s)
    model = DoseNet(len(s.inputs), s.hidden)
    optimizer = torch.optim.AdamW(model.parameters(), lr=s.lr, weight_decay=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, s.epochs)
    loss_fn = nn.SmoothL1Loss()
    for epoch in range(1, s.epochs + 1):
        model.train()
        running = 0.0
        for x, y in train.batches(s.batch):
            loss = loss_fn(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.item() * len(y)
        scheduler.step()
        mae, r2 = scores(model, val, sy)
        print(f"epoch {epoch:2d}  train {running / len(train.x):.4f}  val MAE {mae:.3f} units  val R2 {r2:.3f}")
    mae, r2 = scores(model, val, sy)
    print(f"final val MAE {mae:.3f} val R2 {r2:.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
