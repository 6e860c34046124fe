"""Claim severity (log paid amount) for motor third-party claims."""
import csv
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn


@dataclass
class SeverityConfig:
    hidden: int
    epochs: int
    batch_size: int
    lr: float
    momentum: float
    max_grad_norm: float
    valid_share: float
    seed: int

    @classmethod
    def from_json(cls, path):
        return cls(**json.loads(Path(path).read_text()))


def read_claims(path):
    with open(path, newline="") as f:
        rows = list(csv.DictReader(f))
    col = lambda name: np.array([float(r[name]) for r in rows])
    x = np.stack([np.log(col("vehicle_value")), col("age"), col("speed_zone"), col("injury"),
                  np.log(col("liability_share"))], 1)
    return x.astype(np.float32), np.log(col("paid")).astype(np.float32)


def r2(pred, y):
    return (1 - ((pred - y) ** 2).mean() / y.var(unbiased=False)).item()


class Trainer:
    def __init__(self, folder):
        self.cfg = cfg = SeverityConfig.from_json(folder / "config.json")
        torch.manual_seed(cfg.seed)
        x, y = read_claims(folder / "claims.csv")
        order = torch.randperm(len(x)).numpy()
        n_va = int(cfg.valid_share * len(x))
        va, tr = order[:n_va], order[n_va:]
        mu, sd = x[tr].mean(0), x[tr].std(0)
        y_mu, y_sd = y[tr].mean(), y[tr].std()
        x, y = torch.from_numpy((x - mu) / sd), torch.from_numpy((y - y_mu) / y_sd)
        self.x, self.y, self.x_va, self.y_va = x[tr], y[tr], x[va], y[va]
        self.model = nn.Sequential(nn.Linear(x.shape[1], cfg.hidden), nn.Tanh(),
                                   nn.Linear(cfg.hidden, cfg.hidden), nn.Tanh(), nn.Linear(cfg.hidden, 1))
        self.opt = torch.optim.SGD(self.model.parameters(), lr=cfg.lr, momentum=cfg.momentum)

    def train_epoch(self):
        self.model.train()
        total = 0.0
        for idx in torch.randperm(len(self.x)).split(self.cfg.batch_size):
            loss = nn.functional.mse_loss(self.model(self.x[idx]).squeeze(1), self.y[idx])
            self.opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.max_grad_norm)
            self.opt.step()
            total += loss.item() * len(idx)
        return total / len(self.x)

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        return r2(self.model(self.x_va).squeeze(1), self.y_va)

    def fit(self):
        for epoch in range(1, self.cfg.epochs + 1):
            loss = self.train_epoch()
            print(f"epoch {epoch:2d} mse {loss:.4f} valid R2 {self.validate():.3f}")


if __name__ == "__main__":
    Trainer(Path(sys.argv[1])).fit()
