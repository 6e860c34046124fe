"""Gesture recogniser on wrist accelerometer sequences.

usage: python train.py FOLDER     (FOLDER/config.yaml-like key: value file and gestures.npz)
"""
import math
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def load_config(path):
    cfg = {}
    for line in path.read_text().splitlines():
        if line.strip():
            key, value = line.split(":")
            cfg[key.strip()] = float(value) if "." in value or "e" in value else int(value)
    return cfg


def load_split(data, name, mean, std):
    x = torch.from_numpy(data[f"{name}_x"].astype(np.float32) / 1000)
    y = torch.from_numpy(data[f"{name}_y"].astype(np.int64))
    return (x - mean) / std, y


class GestureGRU(nn.Module):
    def __init__(self, hidden, n_classes, dropout):
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(3, 24, 5, stride=2, padding=2), nn.ReLU())
        self.rnn = nn.GRU(24, hidden, batch_first=True)
        self.drop = nn.Dropout(dropout)
        self.out = nn.Linear(hidden, n_classes)

    def forward(self, x):
        h = self.front(x.transpose(1, 2)).transpose(1, 2)
        _, last = self.rnn(h)
        return self.out(self.drop(last[-1]))


def make_scheduler(opt, warmup_steps, total_steps):
    def factor(step):
        if step < warmup_steps:
            return (step + 1) / warmup_steps
        progress = (step - warmup_steps) / max(1, total_steps - warmup_steps)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    return torch.optim.lr_scheduler.LambdaLR(opt, factor)


@torch.no_grad()
def accuracy(net, loader):
    net.eval()
    hits = [(net(x).argmax(1) == y).float() for x, y in loader]
    return torch.cat(hits).mean().item()


def main(folder):
    cfg = load_config(folder / "config.yaml")
    torch.manual_seed(cfg["seed"])
    data = np.load(folder / "gestures.npz")
    raw = torch.from_numpy(data["train_x"].astype(np.float32) / 1000)
    mean, std = raw.mean(dim=(0, 1)), raw.std(dim=(0, 1))
    train = TensorDataset(*load_split(data, "train", mean, std))
    valid = TensorDataset(*load_split(data, "valid", mean, std))
    train_loader = DataLoader(train, batch_size=cfg["batch_size"], shuffle=True)
    valid_loader = DataLoader(valid, batch_size=100)

    n_classes = int(train.tensors[1].max()) + 1
    net = GestureGRU(cfg["hidden"], n_classes, cfg["dropout"])
    opt = torch.optim.AdamW(net.parameters(), lr=cfg["lr"], weight_decay=cfg["weight_decay"])
    sched = make_scheduler(opt, cfg["warmup_steps"], cfg["epochs"] * len(train_loader))
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(1, cfg["epochs"] + 1):
        net.train()
        total = 0.0
        for x, y in train_loader:
            loss = loss_fn(net(x), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            sched.step()
            total += loss.item()
        print(f"epoch {epoch:2d}  loss {total / len(train_loader):.4f}  valid acc {accuracy(net, valid_loader):.3f}")
    print(f"final validation accuracy {accuracy(net, valid_loader):.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
