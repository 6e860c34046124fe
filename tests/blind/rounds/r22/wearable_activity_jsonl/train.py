"""Activity recognition from two-second summary windows of wrist sensors, pooled over three sites."""
import glob
import json
import os
import sys
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset

FEATURES = ["ax", "ay", "az", "jerk", "cadence"]
ACTIVITIES = ["sitting", "walking", "running", "cycling", "stairs"]


@dataclass
class Options:
    folder: str
    epochs: int = 15
    batch_size: int = 32
    lr: float = 2e-3
    hidden: int = 32
    seed: int = 6


class Windows(Dataset):
    def __init__(self, path):
        self.x, self.y = [], []
        with open(path) as f:
            for line in f:
                rec = json.loads(line)
                self.x.append([rec[k] for k in FEATURES])
                self.y.append(ACTIVITIES.index(rec["activity"]))
        self.x = torch.tensor(self.x, dtype=torch.float32)
        self.y = torch.tensor(self.y)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Standardize(nn.Module):
    def __init__(self, sample):
        super().__init__()
        self.register_buffer("mean", sample.mean(0))
        self.register_buffer("std", sample.std(0))

    def forward(self, x):
        return (x - self.mean) / (self.std + 1e-8)


class Recognizer:
    def __init__(self, opt):
        self.opt = opt
        torch.manual_seed(opt.seed)
        sites = [Windows(p) for p in sorted(glob.glob(os.path.join(opt.folder, "wrist_site_*.jsonl")))]
        self.valid = Windows(os.path.join(opt.folder, "validation.jsonl"))
        self.loader = DataLoader(ConcatDataset(sites), batch_size=opt.batch_size, shuffle=True)
        pooled = torch.cat([s.x for s in sites])
        print(f"{len(sites)} sites, {len(pooled)} windows")
        self.net = nn.Sequential(
            Standardize(pooled),
            nn.Linear(len(FEATURES), opt.hidden), nn.ReLU(),
            nn.Linear(opt.hidden, opt.hidden), nn.ReLU(),
            nn.Linear(opt.hidden, len(ACTIVITIES)))
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=opt.lr)
        self.loss = nn.CrossEntropyLoss()

    def run_epoch(self):
        self.net.train()
        total, count = 0.0, 0
        for x, y in self.loader:
            loss = self.loss(self.net(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total, count = total + loss.item() * len(y), count + len(y)
        return total / count

    @torch.no_grad()
    def accuracy(self):
        self.net.eval()
        guess = self.net(self.valid.x).argmax(1)
        return (guess == self.valid.y).float().mean().item()

    def fit(self):
        for epoch in range(self.opt.epochs):
            loss = self.run_epoch()
            print(f"epoch {epoch + 1:2d}  loss {loss:.4f}  val acc {self.accuracy():.4f}")
        return self.accuracy()


if __name__ == "__main__":
    print(f"validation accuracy {Recognizer(Options(folder=sys.argv[1])).fit():.4f}")
