"""Surge at the inner wharf from wave parameters of the buoys. Usage: python train.py DIR"""
import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn


class SurgeData:
    ORDER = ["hs_m", "tp_s", "mwd_deg", "spread_deg", "tide_m", "wind_ms"]
    RANGE = {"hs_m": (0, 25), "tp_s": (1, 30), "mwd_deg": (0, 360), "spread_deg": (0, 90),
             "tide_m": (-4, 4), "wind_ms": (0, 60)}

    def __init__(self, files):
        waves, surge = [], []
        for path in files:
            pack = np.load(path)
            names = [str(c) for c in pack["columns"]]
            block = pack["waves"][:, [names.index(c) for c in self.ORDER]]
            keep = np.isfinite(block).all(1)
            for j, c in enumerate(self.ORDER):
                low, high = self.RANGE[c]
                keep &= (block[:, j] >= low) & (block[:, j] <= high)
            waves.append(block[keep])
            surge.append(pack["surge_cm"][keep])
            print(f"{Path(path).stem:10s} {keep.sum():5d} records, mean surge {surge[-1].mean():.1f} cm")
        self.raw = torch.from_numpy(np.concatenate(waves))
        self.surge = torch.from_numpy(np.concatenate(surge))

    def features(self):
        hs, tp, mwd, spread, tide, wind = self.raw.unbind(1)
        a = mwd * math.pi / 180
        return torch.stack([hs, tp, a.sin(), a.cos(), spread, tide, wind], dim=1)


class Trainer:
    def __init__(self, cfg, train, val):
        self.cfg = cfg
        x, self.y = train.features(), train.surge
        self.mean, self.std = x.mean(0), x.std(0)
        self.x = (x - self.mean) / self.std
        self.vx, self.vy = (val.features() - self.mean) / self.std, val.surge
        # surge is heavy tailed: learn its square root
        self.ty = self.y.clamp(min=0).sqrt()
        self.ym, self.ys = self.ty.mean(), self.ty.std()
        h = cfg["hidden"]
        self.net = nn.Sequential(nn.Linear(x.shape[1], h), nn.SiLU(), nn.Linear(h, h), nn.SiLU(),
                                 nn.Linear(h, h), nn.SiLU(), nn.Linear(h, 1))
        self.opt = torch.optim.Adam(self.net.parameters(), lr=cfg["lr"])
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, cfg["epochs"])

    def epoch(self):
        self.net.train()
        total = 0.0
        for idx in torch.randperm(len(self.y)).split(self.cfg["batch"]):
            goal = (self.ty[idx] - self.ym) / self.ys
            loss = (self.net(self.x[idx]).squeeze(1) - goal).square().mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            total += loss.item() * len(idx)
        self.sched.step()
        return total / len(self.y)

    @torch.no_grad()
    def predict(self, x):
        self.net.eval()
        root = self.net(x).squeeze(1) * self.ys + self.ym
        return root.clamp(min=0).square()

    def mae(self):
        return (self.predict(self.vx) - self.vy).abs().mean().item()

    def fit(self):
        for e in range(1, self.cfg["epochs"] + 1):
            loss = self.epoch()
            if e % 9 == 0:
                print(f"epoch {e:2d}  train loss {loss:.4f}  val MAE {self.mae():.2f} cm")


if __name__ == "__main__":
    root = Path(sys.argv[1])
    cfg = json.loads((root / "config.json").read_text())
    torch.manual_seed(cfg["seed"])
    train = SurgeData([root / "buoys" / f"{s}.npz" for s in cfg["shards"]])
    val = SurgeData([root / "campaign.npz"])
    trainer = Trainer(cfg, train, val)
    trainer.fit()
    base = (val.surge - train.surge.median()).abs().mean().item()
    print(f"val MAE {trainer.mae():.2f} cm (constant guess {base:.2f} cm)")
