"""Courier ETA model: minutes to delivery from route features."""
import json
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    n_trips: int = 8000
    depots: int = 12
    hidden: int = 64
    epochs: int = 12
    batch_size: int = 128
    lr: float = 3e-3
    step_size: int = 4
    gamma: float = 0.3
    seed: int = 17


def make_trips(cfg):
    rng = np.random.default_rng(cfg.seed)
    depot = rng.integers(0, cfg.depots, cfg.n_trips)
    km = rng.gamma(2.0, 4.0, cfg.n_trips)
    stops = rng.integers(0, 12, cfg.n_trips)
    hour = rng.uniform(6, 22, cfg.n_trips)
    rain = rng.random(cfg.n_trips) < 0.2
    depot_speed = rng.uniform(18, 42, cfg.depots)
    rush = 1 + 0.5 * np.exp(-((hour - 8) / 1.2) ** 2) + 0.6 * np.exp(-((hour - 17.5) / 1.5) ** 2)
    minutes = 60 * km / depot_speed[depot] * rush * (1 + 0.25 * rain) + 3.5 * stops
    minutes = minutes + rng.normal(0, 2.5, cfg.n_trips)
    x = np.stack([km, stops, np.sin(hour * np.pi / 12), np.cos(hour * np.pi / 12), rain], 1)
    return (torch.tensor(depot), torch.tensor(x, dtype=torch.float32),
            torch.tensor(minutes, dtype=torch.float32))


class ETANet(nn.Module):
    def __init__(self, cfg, n_num):
        super().__init__()
        self.depot = nn.Embedding(cfg.depots, 6)
        self.mlp = nn.Sequential(nn.Linear(6 + n_num, cfg.hidden), nn.ReLU(),
                                 nn.Linear(cfg.hidden, cfg.hidden), nn.ReLU(), nn.Linear(cfg.hidden, 1))

    def forward(self, depot, x):
        return self.mlp(torch.cat([self.depot(depot), x], 1)).squeeze(1)


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg.seed)
        depot, x, y = make_trips(cfg)
        n = int(0.85 * len(y))
        mu, sd = x[:n].mean(0), x[:n].std(0)
        self.y_mu, self.y_sd = y[:n].mean(), y[:n].std()
        x, z = (x - mu) / sd, (y - self.y_mu) / self.y_sd
        self.train_dl = DataLoader(TensorDataset(depot[:n], x[:n], z[:n]), cfg.batch_size, shuffle=True)
        self.valid = (depot[n:], x[n:], y[n:])
        self.model = ETANet(cfg, x.shape[1])
        self.opt = torch.optim.Adam(self.model.parameters(), lr=cfg.lr)
        self.sched = torch.optim.lr_scheduler.StepLR(self.opt, cfg.step_size, cfg.gamma)
        self.loss_fn = nn.SmoothL1Loss()

    def train_epoch(self):
        self.model.train()
        total = 0.0
        for depot, x, z in self.train_dl:
            loss = self.loss_fn(self.model(depot, x), z)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            total += loss.item()
        self.sched.step()
        return total / len(self.train_dl)

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        depot, x, y = self.valid
        pred = self.model(depot, x) * self.y_sd + self.y_mu
        return (pred - y).abs().mean().item()

    def run(self):
        print(json.dumps(asdict(self.cfg)))
        for epoch in range(self.cfg.epochs):
            loss = self.train_epoch()
            print(f"[{epoch + 1:02d}] loss {loss:.4f}  val MAE {self.validate():.2f} min")
        base = (self.valid[2] - self.y_mu).abs().mean()
        print(f"mean-predictor MAE {base:.2f} min")


if __name__ == "__main__":
    Trainer(Config()).run()
