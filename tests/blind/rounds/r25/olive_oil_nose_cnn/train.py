"""Classifier for sensory defects of olive oil from the response curves of an electronic nose."""
import argparse
import csv
import json
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Sniffs(Dataset):
    """Curves in mV; with a noise table, each draw gets fresh sensor noise."""

    def __init__(self, path, noise_mv=None):
        with np.load(path) as z:
            self.mv = torch.from_numpy(z["response_mv"])
            self.y = torch.from_numpy(z["defect"])
        self.noise_mv = noise_mv

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        x = self.mv[i]
        if self.noise_mv is not None:
            x = x + self.noise_mv[:, None] * torch.randn_like(x)
        return x, self.y[i]


def read_noise(path, sensors):
    with open(path) as f:
        table = {row["sensor"]: float(row["rms_mv"]) for row in csv.DictReader(f)}
    return torch.tensor([table[s] for s in sensors])


def build(n_sensors, n_classes, mean, std):
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", mean[:, None])
            self.register_buffer("std", std[:, None])

        def forward(self, x):
            return (x - self.mean) / self.std

    def conv(a, b):
        return nn.Sequential(nn.Conv1d(a, b, 5, padding=2), nn.BatchNorm1d(b), nn.ReLU(), nn.MaxPool1d(2))

    return nn.Sequential(Scale(), conv(n_sensors, 24), conv(24, 32), conv(32, 32), nn.Flatten(),
                         nn.Linear(32 * 8, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, n_classes))


def evaluate(model, loader, n_classes):
    model.eval()
    table = torch.zeros(n_classes, n_classes)
    with torch.no_grad():
        for x, y in loader:
            for a, b in zip(y, model(x).argmax(1)):
                table[a, b] += 1
    recall = table.diag() / table.sum(1)
    return (table.diag().sum() / table.sum()).item(), recall


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("folder", type=Path)
    args = ap.parse_args()
    cfg = json.loads((args.folder / "config.json").read_text())
    torch.manual_seed(cfg["seed"])

    noise = None
    if cfg["augment"]["noise"]:
        noise = read_noise(args.folder / "noise_floor.csv", cfg["sensors"]) * cfg["augment"]["noise_gain"]
    train_set = Sniffs(args.folder / "train.npz", noise)
    val_set = Sniffs(args.folder / "val.npz")
    train = DataLoader(train_set, batch_size=cfg["batch"], shuffle=True)
    val = DataLoader(val_set, batch_size=250)

    mean, std = train_set.mv.mean((0, 2)), train_set.mv.std((0, 2))
    model = build(len(cfg["sensors"]), len(cfg["classes"]), mean, std)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, cfg["lr"] * 2, total_steps=cfg["epochs"] * len(train))
    ce = nn.CrossEntropyLoss()

    for epoch in range(cfg["epochs"]):
        model.train()
        run = 0.0
        for x, y in train:
            loss = ce(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            run += loss.item()
        acc, _ = evaluate(model, val, len(cfg["classes"]))
        print(f"[{epoch + 1:2d}] loss {run / len(train):.3f}  val accuracy {acc:.3f}")

    acc, recall = evaluate(model, val, len(cfg["classes"]))
    for name, r in zip(cfg["classes"], recall):
        print(f"  {name:13s} recall {r:.2f}")
    print(f"val accuracy {acc:.3f}")


if __name__ == "__main__":
    main()
