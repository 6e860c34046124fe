"""Soil organic carbon from near-infrared spectra."""
import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import BatchSampler, RandomSampler


class Spectra:
    def __init__(self, path):
        with np.load(path) as z:
            self.x, self.y = torch.from_numpy(z["x"]), torch.from_numpy(z["y"])
            self.xv, self.yv = torch.from_numpy(z["x_valid"]), torch.from_numpy(z["y_valid"])
        self.mu, self.sd = self.x.mean(0), self.x.std(0)
        self.x, self.xv = (self.x - self.mu) / self.sd, (self.xv - self.mu) / self.sd
        self.ym, self.ys = self.y.mean(), self.y.std()


class CarbonNet(nn.Module):
    def __init__(self, bands, width):
        super().__init__()
        self.pool = nn.AvgPool1d(2)
        self.net = nn.Sequential(
            nn.Linear(bands // 2, width), nn.LayerNorm(width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, 1),
        )

    def forward(self, x):
        return self.net(self.pool(x[:, None]).squeeze(1)).squeeze(-1)


class Engine:
    def __init__(self, model, cfg):
        self.model = model
        self.every = cfg["accumulate"]
        self.opt = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=cfg["weight_decay"])
        self.loss_fn = nn.MSELoss()

    def epoch(self, data, sampler):
        self.model.train()
        self.opt.zero_grad()
        total, n = 0.0, 0
        for i, idx in enumerate(sampler, start=1):
            target = (data.y[idx] - data.ym) / data.ys
            loss = self.loss_fn(self.model(data.x[idx]), target)
            (loss / self.every).backward()
            if i % self.every == 0:
                self.opt.step()
                self.opt.zero_grad()
            total += loss.item() * len(idx)
            n += len(idx)
        return total / n

    @torch.no_grad()
    def rmse(self, data):
        self.model.eval()
        pred = self.model(data.xv) * data.ys + data.ym
        return ((pred - data.yv) ** 2).mean().sqrt().item()


def main():
    home = Path(sys.argv[1])
    cfg = json.loads((home / "run.json").read_text())
    torch.manual_seed(cfg["seed"])
    data = Spectra(home / "spectra.npz")
    print(f"{len(data.x)} training spectra, spread of carbon in validation {data.yv.std():.3f} %")
    sampler = BatchSampler(RandomSampler(range(len(data.x))), cfg["batch_size"], drop_last=True)
    engine = Engine(CarbonNet(data.x.shape[1], cfg["width"]), cfg)
    for epoch in range(cfg["epochs"]):
        loss = engine.epoch(data, sampler)
        if epoch % 3 == 0:
            print(f"epoch {epoch:2d}  loss {loss:.4f}  RMSE {engine.rmse(data):.4f}")
    print(f"validation RMSE (% carbon): {engine.rmse(data):.4f}")


if __name__ == "__main__":
    main()
