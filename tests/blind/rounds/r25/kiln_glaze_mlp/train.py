"""Predict the 60 degree gloss of fired tiles (gloss units) from recipe and firing log."""
import csv
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn


@dataclass
class Settings:
    folder: Path
    hidden: int = 64
    epochs: int = 40
    batch_size: int = 64
    lr: float = 2e-3
    weight_decay: float = 1e-4
    seed: int = 1


class Scaler:
    def __init__(self, path):
        spec = json.loads(path.read_text())
        self.columns = spec["columns"]
        self.mean = torch.tensor(spec["mean"])
        self.std = torch.tensor(spec["std"])
        if not (len(self.columns) == len(self.mean) == len(self.std)) or (self.std <= 0).any():
            raise ValueError("scaler.json is damaged")

    def __call__(self, x):
        return (x - self.mean) / self.std


def load(path, columns):
    x, y, is_val = [], [], []
    with path.open(newline="") as f:
        for row in csv.DictReader(f):
            x.append([float(row[c]) for c in columns])
            y.append(float(row["gloss_gu"]))
            is_val.append(row["split"] == "val")
    return torch.tensor(x), torch.tensor(y), torch.tensor(is_val)


class GlossTrainer:
    def __init__(self, s):
        torch.manual_seed(s.seed)
        self.s = s
        self.scaler = Scaler(s.folder / "scaler.json")
        x, y, is_val = load(s.folder / "firings.csv", self.scaler.columns)
        x = self.scaler(x)
        self.x_tr, self.y_tr = x[~is_val], y[~is_val]
        self.x_va, self.y_va = x[is_val], y[is_val]
        self.y_mean, self.y_std = self.y_tr.mean(), self.y_tr.std()
        h = s.hidden
        self.net = nn.Sequential(nn.Linear(x.shape[1], h), nn.Tanh(), nn.Linear(h, h), nn.Tanh(), nn.Linear(h, 1))
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=s.lr, weight_decay=s.weight_decay)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, s.epochs)

    def predict(self, x):
        return self.net(x).squeeze(1) * self.y_std + self.y_mean

    def step(self, x, y):
        target = (y - self.y_mean) / self.y_std
        loss = nn.functional.mse_loss(self.net(x).squeeze(1), target)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()

    @torch.no_grad()
    def validate(self):
        error = self.predict(self.x_va) - self.y_va
        r2 = 1 - error.pow(2).mean() / (self.y_va - self.y_va.mean()).pow(2).mean()
        return error.abs().mean().item(), r2.item()

    def fit(self):
        for epoch in range(1, self.s.epochs + 1):
            losses = [self.step(self.x_tr[i], self.y_tr[i])
                      for i in torch.randperm(len(self.y_tr)).split(self.s.batch_size)]
            self.sched.step()
            if epoch % 10 == 0:
                mae, r2 = self.validate()
                print(f"epoch {epoch:3d}  train mse {sum(losses) / len(losses):.4f}  val MAE {mae:.2f} GU  R2 {r2:.3f}")


if __name__ == "__main__":
    GlossTrainer(Settings(Path(sys.argv[1]))).fit()
