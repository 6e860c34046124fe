import csv
import sys
from datetime import datetime
from math import cos, pi, sin
from pathlib import Path

import torch
from torch import nn


def load(folder, name):
    with open(folder / f"{name}_meter.csv") as f:
        kwh = {r["time"]: float(r["kwh"]) for r in csv.DictReader(f)}
    xs, ys = [], []
    with open(folder / f"{name}_sensors.csv") as f:
        for r in csv.DictReader(f):
            if r["time"] not in kwh:
                continue
            t = datetime.fromisoformat(r["time"])
            a = 2 * pi * (t.hour + t.minute / 60) / 24
            xs.append([sin(a), cos(a)] + [float(r[c]) for c in ("outdoor_c", "people_home", "hob_on", "washer_on", "ev_plugged", "boiler_on")])
            ys.append(kwh[r["time"]])
    return torch.tensor(xs), torch.tensor(ys)


class Trainer:
    def __init__(self, folder):
        self.x, self.y = load(folder, "january")
        self.xt, self.yt = load(folder, "march")
        self.mu, self.sigma = self.x.mean(0), self.x.std(0)
        self.ym, self.ys = self.y.mean(), self.y.std()
        self.net = nn.Sequential(nn.Linear(8, 48), nn.GELU(), nn.Linear(48, 48), nn.GELU(), nn.Linear(48, 1))
        self.opt = torch.optim.Adam(self.net.parameters(), lr=2e-3)
        self.loss = nn.HuberLoss()

    def predict(self, x):
        return self.net((x - self.mu) / self.sigma).squeeze(-1)

    def epoch(self, batch=64):
        total = 0.0
        for ix in torch.randperm(len(self.x)).split(batch):
            loss = self.loss(self.predict(self.x[ix]), (self.y[ix] - self.ym) / self.ys)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            total += loss.item() * len(ix)
        return total / len(self.x)

    @torch.no_grad()
    def r2(self):
        p = self.predict(self.xt) * self.ys + self.ym
        return 1 - ((p - self.yt) ** 2).sum().item() / ((self.yt - self.yt.mean()) ** 2).sum().item()


if __name__ == "__main__":
    torch.manual_seed(2)
    tr = Trainer(Path(sys.argv[1]))
    for e in range(12):
        l = tr.epoch()
        if e % 3 == 2:
            print(f"epoch {e + 1}: train huber {l:.4f}")
    print(f"R2 on March: {tr.r2():.4f}")
