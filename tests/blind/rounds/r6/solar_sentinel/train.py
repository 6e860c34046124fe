"""PV plant: AC output (kW per kWp) from pyranometer, module temperature and wind."""
import sys
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class PVConfig:
    path: str
    hidden: int = 32
    batch_size: int = 64
    epochs: int = 15
    lr: float = 3e-3
    seed: int = 8


def load(path):
    with np.load(path) as z:
        x, y, split = z["x"], z["y"], z["split"]
    tr, va = split == 0, split == 1
    mean, std = x[tr].mean(0), x[tr].std(0)
    x = (x - mean) / std
    to = torch.from_numpy
    return TensorDataset(to(x[tr]), to(y[tr])), TensorDataset(to(x[va]), to(y[va]))


class PVNet(nn.Module):
    def __init__(self, n_in, hidden):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(n_in, hidden), nn.ReLU(),
            nn.Linear(hidden, hidden), nn.ReLU(),
            nn.Linear(hidden, 1))

    def forward(self, x):
        return self.layers(x).squeeze(-1)


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg.seed)
        train, valid = load(cfg.path)
        self.train_dl = DataLoader(train, cfg.batch_size, shuffle=True)
        self.valid_dl = DataLoader(valid, 256)
        self.target_mean = train.tensors[1].mean()
        self.model = PVNet(train.tensors[0].shape[1], cfg.hidden)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=cfg.lr)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, cfg.epochs)
        self.loss_fn = nn.L1Loss()

    def train_epoch(self):
        self.model.train()
        total = 0.0
        for x, y in self.train_dl:
            loss = self.loss_fn(self.model(x), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            total += loss.item() * len(y)
        self.sched.step()
        return total / len(self.train_dl.dataset)

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        abs_err, base_err, n = 0.0, 0.0, 0
        for x, y in self.valid_dl:
            abs_err += (self.model(x) - y).abs().sum().item()
            base_err += (self.target_mean - y).abs().sum().item()
            n += len(y)
        return abs_err / n, base_err / n

    def fit(self):
        print(f"{len(self.train_dl.dataset)} training samples, {len(self.valid_dl.dataset)} validation samples")
        for epoch in range(1, self.cfg.epochs + 1):
            loss = self.train_epoch()
            mae, base = self.validate()
            print(f"epoch {epoch:2d}  train MAE {loss:.4f}  valid MAE {mae:.4f}  skill {1 - mae / base:.3f}")


if __name__ == "__main__":
    Trainer(PVConfig(path=f"{sys.argv[1]}/plant.npz")).fit()
