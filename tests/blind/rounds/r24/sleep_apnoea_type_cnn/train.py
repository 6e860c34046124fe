"""Central or obstructive? 1D CNN on scored apnoea events. Usage: train.py FOLDER"""
import configparser
import csv
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

TYPES = ("obstructive", "central")


def load(folder, cfg):
    signals = np.load(folder / cfg["data"]["signals"]).astype(np.float32)
    with open(folder / cfg["data"]["table"], newline="") as f:
        rows = list(csv.DictReader(f))
    label = np.array([TYPES.index(r["type"]) for r in rows])
    patient = np.array([r["patient"] for r in rows])
    return signals, label, patient


def resample(signals, source_hz, target_hz):
    """Averages over blocks of source samples."""
    k = source_hz // target_hz
    n, c, t = signals.shape
    return signals[:, :, : t // k * k].reshape(n, c, t // k, k).mean(-1)


class ApnoeaCNN(nn.Module):
    def __init__(self, channels, kernel, dropout):
        super().__init__()

        def block(i, o):
            return nn.Sequential(nn.Conv1d(i, o, kernel, padding=kernel // 2, bias=False), nn.BatchNorm1d(o), nn.ReLU())

        self.stem = block(2, channels)
        self.deep = nn.Sequential(block(channels, channels), nn.MaxPool1d(2), block(channels, 2 * channels))
        self.head = nn.Sequential(nn.Dropout(dropout), nn.Linear(4 * channels, 2))

    def forward(self, x):
        h = self.deep(self.stem(x))
        return self.head(torch.cat([h.mean(-1), h.amax(-1)], 1))


def batches(idx, size):
    for part in torch.randperm(len(idx)).split(size):
        yield idx[part]


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    return (model(x).argmax(1) == y).float().mean().item()


def main(folder):
    cfg = configparser.ConfigParser()
    cfg.read(folder / "config.ini")
    torch.manual_seed(cfg.getint("train", "seed"))
    signals, label, patient = load(folder, cfg)
    x = resample(signals, cfg.getint("data", "recorded_hz"), cfg.getint("data", "target_hz"))

    people = np.random.default_rng(cfg.getint("train", "seed")).permutation(np.unique(patient))
    is_val = np.isin(patient, people[: cfg.getint("data", "val_patients")])
    mean, std = x[~is_val].mean((0, 2), keepdims=True), x[~is_val].std((0, 2), keepdims=True)
    x, y = torch.from_numpy((x - mean) / std), torch.from_numpy(label)
    tr, va = torch.from_numpy(np.flatnonzero(~is_val)), torch.from_numpy(np.flatnonzero(is_val))
    print(f"{len(tr)} training events, {len(va)} validation events, {x.shape[-1]} samples per event")

    m = cfg["model"]
    model = ApnoeaCNN(m.getint("channels"), m.getint("kernel"), m.getfloat("dropout"))
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.getfloat("train", "lr"), weight_decay=cfg.getfloat("train", "weight_decay"))
    epochs = cfg.getint("train", "epochs")
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for idx in batches(tr, cfg.getint("train", "batch")):
            opt.zero_grad()
            loss = loss_fn(model(x[idx]), y[idx])
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        sched.step()
        if (epoch + 1) % 5 == 0:
            print(f"epoch {epoch + 1:2d}  train loss {total / len(tr):.4f}  val acc {accuracy(model, x[va], y[va]):.4f}")
    print(f"validation accuracy {accuracy(model, x[va], y[va]):.4f}  (majority {max(y[va].float().mean().item(), 1 - y[va].float().mean().item()):.4f})")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
