"""Continue the film thickness model of line A on the panels of the new line B."""
import csv
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

INPUTS = ["paint_flow", "bell_rpm", "voltage_kv", "distance_mm", "booth_temp", "humidity", "viscosity"]


@dataclass
class Settings:
    epochs: int
    batch: int
    lr: float
    weight_decay: float
    valid_share: float
    seed: int


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.f = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, x):
        return x + self.f(x)


class FilmNet(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(len(INPUTS), width), Block(width), Block(width), nn.Linear(width, 1))
        self.register_buffer("x_mean", torch.zeros(len(INPUTS)))
        self.register_buffer("x_std", torch.ones(len(INPUTS)))
        self.register_buffer("y_mean", torch.zeros(()))
        self.register_buffer("y_std", torch.ones(()))

    def forward(self, x):
        return self.net((x - self.x_mean) / self.x_std).squeeze(1)

    def microns(self, x):
        return self(x) * self.y_std + self.y_mean


def read_panels(path):
    with open(path, newline="") as f:
        rows = list(csv.DictReader(f))
    x = torch.tensor([[float(r[c]) for c in INPUTS] for r in rows])
    return x, torch.tensor([float(r["film_um"]) for r in rows])


class Run:
    def __init__(self, folder):
        self.cfg = Settings(**json.loads((folder / "settings.json").read_text()))
        torch.manual_seed(self.cfg.seed)
        x, y = read_panels(folder / "line_b.csv")
        order = torch.randperm(len(y))
        n_valid = int(len(y) * self.cfg.valid_share)
        self.valid = x[order[:n_valid]], y[order[:n_valid]]
        self.train = x[order[n_valid:]], y[order[n_valid:]]

        self.model = FilmNet()
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=self.cfg.lr, weight_decay=self.cfg.weight_decay)
        saved = torch.load(folder / "line_a.pt", weights_only=True)
        self.model.load_state_dict(saved["model"])
        self.opt.load_state_dict(saved["optimizer"])
        print(f"line A model after {saved['epoch']} epochs, {len(self.train[1])} panels of line B to train on")

    def mae(self):
        self.model.eval()
        x, y = self.valid
        with torch.no_grad():
            return (self.model.microns(x) - y).abs().mean().item()

    def fit(self):
        x, y = self.train
        print(f"start             valid MAE {self.mae():.3f} um")
        for epoch in range(1, self.cfg.epochs + 1):
            self.model.train()
            losses = []
            for idx in torch.randperm(len(y)).split(self.cfg.batch):
                goal = (y[idx] - self.model.y_mean) / self.model.y_std
                loss = nn.functional.huber_loss(self.model(x[idx]), goal)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                losses.append(loss.item())
            if epoch % 5 == 0:
                print(f"epoch {epoch:2d}  loss {np.mean(losses):.4f}  valid MAE {self.mae():.3f} um")


if __name__ == "__main__":
    Run(Path(sys.argv[1])).fit()
