"""Water content of the tomato substrate one day ahead, from two days of greenhouse sensors (small transformer)."""
import csv
import json
import math
import os
import sys

import numpy as np
import torch
from torch import nn

INPUTS = ["radiation", "outside_temp", "inside_temp", "humidity", "vents", "drain_ec", "water_content"]


def load_log(path):
    """Sensor log of the climate computer, one row every two hours -> (rows, inputs) and the fraction of the day."""
    values, clock = [], []
    with open(path, newline="") as f:
        for row in csv.DictReader(f, delimiter=";"):
            values.append([float(row[k]) for k in INPUTS])
            clock.append(int(row["stamp"][11:13]) / 24)
    return np.array(values, dtype=np.float32), np.array(clock, dtype=np.float32)


def windows(values, clock, past, ahead, mean, std):
    phase = 2 * math.pi * clock[:, None]
    feats = np.concatenate([(values - mean) / std, np.sin(phase), np.cos(phase)], 1).astype(np.float32)
    starts = range(len(values) - past - ahead + 1)
    x = np.stack([feats[s:s + past] for s in starts])
    y = np.stack([values[s + past + ahead - 1, -1:] for s in starts])
    return torch.from_numpy(x), torch.from_numpy((y - mean[-1]) / std[-1])


class Forecaster(nn.Module):
    def __init__(self, n_in, past, dim, heads, layers, dropout):
        super().__init__()
        self.inp = nn.Linear(n_in, dim)
        self.pos = nn.Parameter(torch.randn(past, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, layers)
        self.out = nn.Linear(2 * dim, 1)

    def forward(self, x):
        h = self.enc(self.inp(x) + self.pos)
        return self.out(torch.cat([h[:, -1], h.mean(1)], 1))


class Trainer:
    def __init__(self, folder):
        with open(os.path.join(folder, "forecast.json")) as f:
            self.cfg = cfg = json.load(f)
        torch.manual_seed(cfg["seed"])
        values, clock = load_log(os.path.join(folder, cfg["train_log"]))
        mean, std = values.mean(0), values.std(0)
        span = (cfg["past"], cfg["ahead"], mean, std)
        self.x, self.y = windows(values, clock, *span)
        parts = [windows(*load_log(os.path.join(folder, p)), *span) for p in cfg["valid_logs"]]
        self.vx, self.vy = torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts])
        self.scale = float(std[-1])
        self.net = Forecaster(self.x.shape[2], cfg["past"], *cfg["transformer"])
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=cfg["lr"], weight_decay=0.01)
        self.total = cfg["epochs"] * math.ceil(len(self.x) / cfg["batch"])
        self.sched = torch.optim.lr_scheduler.OneCycleLR(self.opt, cfg["lr"], total_steps=self.total)

    def epoch(self):
        self.net.train()
        losses = []
        for idx in torch.randperm(len(self.x)).split(self.cfg["batch"]):
            loss = nn.functional.l1_loss(self.net(self.x[idx]), self.y[idx])
            self.opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
            self.opt.step()
            self.sched.step()
            losses.append(loss.item())
        return float(np.mean(losses)) * self.scale

    @torch.no_grad()
    def validate(self):
        self.net.eval()
        return (self.net(self.vx) - self.vy).abs().mean().item() * self.scale

    def run(self):
        print(f"{len(self.x)} training windows, {len(self.vx)} validation windows, {self.total} steps")
        for k in range(self.cfg["epochs"]):
            print(f"epoch {k + 1:2d}: train MAE {self.epoch():.3f}  valid MAE {self.validate():.3f} (vol. %)")


if __name__ == "__main__":
    Trainer(sys.argv[1]).run()
