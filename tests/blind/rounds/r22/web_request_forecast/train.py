"""Short-term forecast of request rate per server group, for autoscaling."""
import csv
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    history: int = 30
    hidden: int = 48
    batch: int = 64
    lr: float = 2e-3
    epochs: int = 9
    seed: int = 23


def read(path):
    with open(path, newline="") as fh:
        return torch.tensor([float(row["requests_per_s"]) for row in csv.DictReader(fh)])


def frame(series, history):
    """Rows of `history` samples and the sample that follows."""
    w = series.unfold(0, history + 1, 1)
    return w[:, :-1], w[:, -1]


class Forecaster(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.linear = nn.Linear(cfg.history, 1)
        self.mlp = nn.Sequential(nn.Linear(cfg.history, cfg.hidden), nn.GELU(), nn.Linear(cfg.hidden, 1))

    def forward(self, x):
        return (self.linear(x) + self.mlp(x)).squeeze(-1)


class Runner:
    def __init__(self, cfg, folder):
        self.cfg = cfg
        train, held = read(folder / "traffic_train.csv"), read(folder / "traffic_heldout.csv")
        self.mean, self.std = train.mean(), train.std()
        x, y = frame((train - self.mean) / self.std, cfg.history)
        self.loader = DataLoader(TensorDataset(x, y), batch_size=cfg.batch, shuffle=True)
        self.xv, self.yv = frame(held, cfg.history)
        self.model = Forecaster(cfg)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=cfg.lr)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, cfg.epochs)

    def epoch(self):
        self.model.train()
        total = 0.0
        for x, y in self.loader:
            loss = nn.functional.mse_loss(self.model(x), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            total += loss.item() * len(y)
        self.sched.step()
        return total / len(self.loader.dataset)

    @torch.no_grad()
    def held_out_rmse(self):
        self.model.eval()
        pred = self.model((self.xv - self.mean) / self.std) * self.std + self.mean
        return (pred - self.yv).pow(2).mean().sqrt().item()

    def run(self):
        naive = (self.xv[:, -1] - self.yv).pow(2).mean().sqrt().item()
        print(f"{len(self.loader.dataset)} windows, persistence RMSE {naive:.2f}")
        for e in range(self.cfg.epochs):
            loss = self.epoch()
            if e % 3 == 2:
                print(f"epoch {e + 1} train mse {loss:.4f} held-out RMSE {self.held_out_rmse():.3f}")
        print(f"held-out RMSE (requests/s) {self.held_out_rmse():.4f}")


if __name__ == "__main__":
    cfg = Config()
    torch.manual_seed(cfg.seed)
    Runner(cfg, Path(sys.argv[1])).run()
