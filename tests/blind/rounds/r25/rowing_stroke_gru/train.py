"""Technique faults of single rowing strokes from oarlock and seat sensors."""
import csv
import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

EPOCHS, BATCH, LR = 16, 40, 3e-3


def read(folder, name, faults):
    x = torch.from_numpy(np.load(folder / f"{name}_strokes.npy"))
    rows = list(csv.DictReader(open(folder / f"{name}_index.csv")))
    idx = torch.tensor([int(r["stroke"]) for r in rows])
    lens = torch.tensor([int(r["length"]) for r in rows])
    y = torch.tensor([faults.index(r["fault"]) for r in rows])
    assert len(x) == len(rows) and lens.min() > 0 and lens.max() <= x.shape[1]
    return x[idx], lens, y


class StrokeNet(nn.Module):
    def __init__(self, n_channels, n_out, hidden=40):
        super().__init__()
        self.proj = nn.Sequential(nn.Linear(n_channels, 24), nn.Tanh())
        self.rnn = nn.GRU(24, hidden, batch_first=True)
        self.out = nn.Linear(hidden, n_out)

    def forward(self, x, lens):
        packed = pack_padded_sequence(self.proj(x), lens, batch_first=True, enforce_sorted=False)
        _, h = self.rnn(packed)
        return self.out(h[-1])


class Coach:
    def __init__(self, folder):
        folder = Path(folder)
        self.meta = json.loads((folder / "meta.json").read_text())
        self.faults = self.meta["faults"]
        self.train_set = read(folder, "train", self.faults)
        self.val_set = read(folder, "val", self.faults)
        self.fit_scale()
        torch.manual_seed(9)
        self.net = StrokeNet(len(self.meta["channels"]), len(self.faults))
        self.opt = torch.optim.Adam(self.net.parameters(), lr=LR)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, EPOCHS, eta_min=LR / 20)

    def fit_scale(self):
        x, lens, _ = self.train_set
        inside = torch.arange(x.shape[1])[None] < lens[:, None]
        self.mu, self.sd = x[inside].mean(0), x[inside].std(0)

    def scale(self, x):
        return (x - self.mu) / self.sd

    def epoch(self):
        self.net.train()
        x, lens, y = self.train_set
        total = 0.0
        for j in torch.randperm(len(y)).split(BATCH):
            loss = nn.functional.cross_entropy(self.net(self.scale(x[j]), lens[j]), y[j])
            self.opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.net.parameters(), 2.0)
            self.opt.step()
            total += loss.item() * len(j)
        self.sched.step()
        return total / len(y)

    @torch.no_grad()
    def accuracy(self):
        self.net.eval()
        x, lens, y = self.val_set
        return (self.net(self.scale(x), lens).argmax(1) == y).float().mean().item()

    def run(self):
        for e in range(EPOCHS):
            loss = self.epoch()
            if e % 3 == 0 or e == EPOCHS - 1:
                print(f"{e + 1:3d}  loss {loss:.3f}  val acc {self.accuracy():.3f}")


if __name__ == "__main__":
    Coach(sys.argv[1]).run()
