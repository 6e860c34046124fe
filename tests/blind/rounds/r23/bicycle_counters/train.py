"""Hourly bicycle counts from calendar and weather: Poisson regression with station embeddings."""
import sys
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Options:
    folder: str
    embed: int = 6
    hidden: int = 64
    epochs: int = 20
    batch: int = 64
    lr: float = 3e-3
    seed: int = 0


class CounterData:
    numeric = ("temp", "rain", "wind")

    def __init__(self, folder):
        self.folder = folder
        train = self.read("train")
        raw = np.stack([train[c] for c in self.numeric], 1)
        self.center, self.spread = raw.mean(0), raw.std(0)
        self.train = self.dataset(train, "train")
        self.valid = self.dataset(self.read("valid"), "valid")
        self.n_counters = int(train["counter"].max()) + 1

    def read(self, part):
        return np.genfromtxt(f"{self.folder}/{part}_conditions.tsv", names=True, delimiter="\t")

    def dataset(self, table, part):
        counts = np.loadtxt(f"{self.folder}/{part}_counts.txt")
        weather = (np.stack([table[c] for c in self.numeric], 1) - self.center) / self.spread
        angle = 2 * np.pi * table["hour"] / 24
        clock = np.stack([f(k * angle) for k in (1, 2, 3, 4) for f in (np.sin, np.cos)], 1)
        off_day = ((table["weekday"] >= 5) | (table["holiday"] > 0))[:, None]
        x = np.concatenate([weather, clock, off_day], 1).astype(np.float32)
        return TensorDataset(torch.from_numpy(table["counter"].astype(np.int64)), torch.from_numpy(x),
                             torch.from_numpy(counts.astype(np.float32)))


class RateNet(nn.Module):
    def __init__(self, n_counters, n_features, o, start):
        super().__init__()
        self.station = nn.Embedding(n_counters, o.embed)
        self.mlp = nn.Sequential(
            nn.Linear(o.embed + n_features, o.hidden), nn.ReLU(),
            nn.Linear(o.hidden, o.hidden), nn.ReLU(), nn.Linear(o.hidden, 1))
        nn.init.constant_(self.mlp[-1].bias, start)

    def forward(self, counter, x):
        return self.mlp(torch.cat([self.station(counter), x], 1)).squeeze(1)


class Trainer:
    def __init__(self, o):
        torch.manual_seed(o.seed)
        self.o = o
        self.data = CounterData(o.folder)
        _, x, y = self.data.train.tensors
        self.net = RateNet(self.data.n_counters, x.shape[1], o, y.mean().log().item())
        self.loss = nn.PoissonNLLLoss(log_input=True)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=o.lr)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, o.epochs)

    def epoch(self):
        self.net.train()
        losses = []
        for counter, x, y in DataLoader(self.data.train, self.o.batch, shuffle=True):
            loss = self.loss(self.net(counter, x), y)
            self.opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.net.parameters(), 20.0)
            self.opt.step()
            losses.append(loss.item())
        self.sched.step()
        return np.mean(losses)

    @torch.no_grad()
    def mae(self):
        self.net.eval()
        counter, x, y = self.data.valid.tensors
        return (self.net(counter, x).exp() - y).abs().mean().item()

    def fit(self):
        for e in range(self.o.epochs):
            loss = self.epoch()
            if e % 4 == 3:
                print(f"epoch {e + 1:02d} poisson loss {loss:9.3f} valid MAE {self.mae():6.2f}")
        return self.mae()


if __name__ == "__main__":
    print(f"valid MAE {Trainer(Options(sys.argv[1])).fit():.3f} bicycles per hour")
