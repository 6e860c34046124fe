"""Grape variety from near-infrared spectra.  usage: python train.py <folder>"""
import csv
import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class SpectraTable(Dataset):
    def __init__(self, path, grapes=None, mean=None, std=None):
        with open(path, newline="") as f:
            rows = list(csv.DictReader(f))
        bands = [c for c in rows[0] if c.startswith("nm")]
        x = np.array([[float(r[b]) for b in bands] for r in rows], np.float32)
        # standard normal variate: removes the offset of every spectrum
        x = x - x.mean(1, keepdims=True)
        self.mean = x.mean(0) if mean is None else mean
        self.std = x.std(0) if std is None else std
        self.grapes = grapes or sorted({r["grape"] for r in rows})
        self.x = torch.from_numpy((x - self.mean) / self.std)
        self.y = torch.tensor([self.grapes.index(r["grape"]) for r in rows])

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def build_model(n_bands, hidden, n_classes):
    return nn.Sequential(
        nn.Linear(n_bands, hidden), nn.ReLU(), nn.Dropout(0.1),
        nn.Linear(hidden, hidden), nn.ReLU(),
        nn.Linear(hidden, n_classes),
    )


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    right = total = 0
    for x, y in loader:
        right += (model(x).argmax(1) == y).sum().item()
        total += len(y)
    return right / total


def run(folder):
    cfg = json.loads((folder / "config.json").read_text())
    torch.manual_seed(cfg["seed"])
    train_set = SpectraTable(folder / "train.csv")
    val_set = SpectraTable(folder / "val.csv", train_set.grapes, train_set.mean, train_set.std)
    train = DataLoader(train_set, batch_size=cfg["batch_size"], **cfg["loader"])
    val = DataLoader(val_set, batch_size=200)

    model = build_model(train_set.x.shape[1], cfg["hidden"], len(train_set.grapes))
    optimizer = torch.optim.SGD(model.parameters(), **cfg["optimizer"])
    loss_fn = nn.CrossEntropyLoss()

    for epoch in range(1, cfg["epochs"] + 1):
        model.train()
        total = 0.0
        for x, y in train:
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(y)
        print(f"epoch {epoch:2d}  loss {total / len(train_set):.4f}  val accuracy {evaluate(model, val):.4f}")
    print(f"final val accuracy {evaluate(model, val):.4f}")


if __name__ == "__main__":
    run(Path(sys.argv[1]))
