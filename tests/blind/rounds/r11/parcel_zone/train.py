"""Minutes from depot to door. Orders carry a postcode; the zone table gives position and density."""
import csv
import os
import sys
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    folder: str
    hidden: int = 64
    epochs: int = 12
    batch: int = 64
    lr: float = 2e-3
    seed: int = 6


class Features:
    def __init__(self, cfg):
        self.cfg = cfg
        self.zone = {r["postcode"]: (float(r["x_km"]), float(r["y_km"]), float(r["density"])) for r in self.rows("zones")}
        centre = np.mean(list(self.zone.values()), axis=0)
        self.fallback = tuple(centre.tolist())   # new postcodes get the middle of the area

    def rows(self, name):
        with open(os.path.join(self.cfg.folder, name + ".csv"), newline="") as f:
            return list(csv.DictReader(f))

    def build(self, name):
        x, y = [], []
        for r in self.rows(name):
            hour = float(r["hour"])
            zx, zy, dens = self.zone.get(r["postcode"], self.fallback)
            x.append([zx, zy, dens, float(r["kg"]), float(r["stops"]), hour, float(hour in (7, 8)), float(hour in (16, 17))])
            y.append(float(r["minutes"]))
        return torch.tensor(x, dtype=torch.float32), torch.tensor(y)


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg.seed)
        f = Features(cfg)
        self.data = {p: f.build(p) for p in ("train", "valid", "test")}
        x, y = self.data["train"]
        self.mu, self.sd, self.ym, self.ys = x.mean(0), x.std(0), y.mean(), y.std()
        self.net = nn.Sequential(nn.Linear(8, cfg.hidden), nn.ReLU(), nn.Linear(cfg.hidden, cfg.hidden), nn.ReLU(),
                                 nn.Linear(cfg.hidden, 1))
        self.opt = torch.optim.Adam(self.net.parameters(), lr=cfg.lr)

    def forward(self, x):
        return self.net((x - self.mu) / self.sd).squeeze(1)

    def mae(self, part):
        x, y = self.data[part]
        self.net.eval()
        with torch.no_grad():
            return (self.forward(x) * self.ys + self.ym - y).abs().mean().item()

    def run(self):
        loader = DataLoader(TensorDataset(*self.data["train"]), batch_size=self.cfg.batch, shuffle=True)
        sched = torch.optim.lr_scheduler.LinearLR(self.opt, 1.0, 0.05, total_iters=self.cfg.epochs)
        for epoch in range(self.cfg.epochs):
            self.net.train()
            total = 0.0
            for x, y in loader:
                loss = nn.functional.l1_loss(self.forward(x), (y - self.ym) / self.ys)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                total += loss.item() * len(y)
            sched.step()
            print(f"epoch {epoch} l1 {total / len(loader.dataset):.4f} valid mae {self.mae('valid'):.2f} min")
        print(f"test mae {self.mae('test'):.4f}")


if __name__ == "__main__":
    Trainer(Config(folder=sys.argv[1])).run()
