"""Forecast of next year's household electricity use (kWh)."""
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn


@dataclass
class Settings:
    folder: Path
    epochs: int = 40
    batch: int = 100
    lr: float = 3e-3
    seed: int = 7


class Residual(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.net = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.GELU(), nn.Linear(d, d))

    def forward(self, x):
        return x + self.net(x)


class UseModel(nn.Module):
    def __init__(self, d_in, d=32):
        super().__init__()
        self.inp = nn.Linear(d_in, d)
        self.blocks = nn.Sequential(Residual(d), Residual(d))
        self.out = nn.Linear(d, 1)
        self.skip = nn.Linear(d_in, 1)

    def forward(self, x):
        return (self.out(self.blocks(self.inp(x))) + self.skip(x)).squeeze(-1)


def features(df):
    x = pd.DataFrame(index=df.index)
    x["persons"] = df.persons
    x["area"] = df.area_m2
    x["built"] = df.year_built
    x["heat_pump"] = df.heat_pump
    x["solar"] = df.solar_kwp
    x["last_period"] = df.reading_b - df.reading_a
    x["total"] = np.log(df.reading_a)
    return x.to_numpy(np.float64)


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg.seed)
        self.gen = torch.Generator().manual_seed(cfg.seed)
        train = pd.read_csv(cfg.folder / "households_train.csv")
        val = pd.read_csv(cfg.folder / "households_val.csv")
        xt, xv = features(train), features(val)
        m, s = xt.mean(0), xt.std(0)
        self.xt = torch.tensor((xt - m) / s, dtype=torch.float32)
        self.xv = torch.tensor((xv - m) / s, dtype=torch.float32)
        self.y_mean, self.y_std = train.use_kwh.mean(), train.use_kwh.std()
        self.yt = torch.tensor(((train.use_kwh - self.y_mean) / self.y_std).to_numpy(), dtype=torch.float32)
        self.yv = val.use_kwh.to_numpy()
        self.model = UseModel(xt.shape[1])
        self.opt = torch.optim.Adam(self.model.parameters(), lr=cfg.lr)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, cfg.epochs)

    def epoch(self):
        self.model.train()
        for idx in torch.randperm(len(self.yt), generator=self.gen).split(self.cfg.batch):
            loss = nn.functional.smooth_l1_loss(self.model(self.xt[idx]), self.yt[idx])
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        self.sched.step()
        return loss.item()

    @torch.no_grad()
    def mae(self):
        self.model.eval()
        pred = self.model(self.xv).numpy() * self.y_std + self.y_mean
        return float(np.abs(pred - self.yv).mean())

    def fit(self):
        for e in range(self.cfg.epochs):
            last = self.epoch()
            if (e + 1) % 10 == 0:
                print(f"{e + 1:3d} loss={last:.4f} val MAE={self.mae():.1f} kWh")
        return self.mae()


if __name__ == "__main__":
    result = Trainer(Settings(Path(sys.argv[1]))).fit()
    print(f"val MAE {result:.1f}")
