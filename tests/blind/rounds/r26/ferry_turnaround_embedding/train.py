"""Minutes a ferry will stay at the quay. The forecast is made when the ship passes the
approach buoy, and the berth planner uses it for the next arrival."""
import csv
import json
import os
import sys

import numpy as np
import torch
from torch import nn


def read_calls(path):
    with open(path, newline="") as f:
        rows = list(csv.DictReader(f))
    return {name: [r[name] for r in rows] for name in rows[0]}


class Encoder:
    """Scales the numbers and numbers the categories, from the training rows only."""

    def __init__(self, table, rows, settings):
        self.numbers, self.categories = settings["numbers"], settings["categories"]
        block = self._block(table)[rows]
        self.mean, self.std = block.mean(0), block.std(0) + 1e-6
        self.vocab = {c: {v: i + 1 for i, v in enumerate(sorted({table[c][r] for r in rows}))} for c in self.categories}

    def _block(self, table):
        return np.array([[float(v) for v in table[c]] for c in self.numbers], dtype=np.float32).T

    def __call__(self, table):
        x = torch.from_numpy((self._block(table) - self.mean) / self.std)
        k = [[self.vocab[c].get(v, 0) for v in table[c]] for c in self.categories]
        return x, torch.tensor(k).T


class TurnaroundNet(nn.Module):
    def __init__(self, n_numbers, sizes, dim=6, hidden=64):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(s, dim) for s in sizes)
        self.mlp = nn.Sequential(
            nn.Linear(n_numbers + dim * len(sizes), hidden), nn.ReLU(), nn.Dropout(0.05),
            nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, x, k):
        parts = [table(k[:, i]) for i, table in enumerate(self.tables)]
        return self.mlp(torch.cat([x] + parts, dim=1)).squeeze(1)


def main(folder):
    with open(os.path.join(folder, "settings.json")) as f:
        settings = json.load(f)
    torch.manual_seed(settings["seed"])
    table = read_calls(os.path.join(folder, "port_calls.csv"))
    day = np.array(table["day"], dtype=int)
    y = torch.tensor([float(v) for v in table[settings["target"]]])
    train_rows = np.flatnonzero(day < settings["first_validation_day"])
    val_rows = np.flatnonzero(day >= settings["first_validation_day"])
    encoder = Encoder(table, train_rows, settings)
    x, k = encoder(table)
    mean, std = y[train_rows].mean(), y[train_rows].std()

    net = TurnaroundNet(x.size(1), [len(v) + 1 for v in encoder.vocab.values()])
    opt = torch.optim.AdamW(net.parameters(), lr=settings["lr"], weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, settings["epochs"])
    rng = np.random.default_rng(settings["seed"])
    print(f"{len(train_rows)} calls for training, {len(val_rows)} later ones for validation")
    for epoch in range(1, settings["epochs"] + 1):
        net.train()
        for idx in np.array_split(rng.permutation(train_rows), len(train_rows) // 64):
            loss = nn.functional.mse_loss(net(x[idx], k[idx]), (y[idx] - mean) / std)
            opt.zero_grad()
            loss.backward()
            opt.step()
        sched.step()
        net.eval()
        with torch.no_grad():
            guess = net(x[val_rows], k[val_rows]) * std + mean
        mae = (guess - y[val_rows]).abs().mean().item()
        if epoch % 4 == 0:
            print(f"epoch {epoch:2d}  last batch {loss.item():.3f}  val MAE {mae:.2f} min")
    base = (y[val_rows] - mean).abs().mean().item()
    print(f"always the mean: {base:.2f} min")
    return net, encoder, mean, std


if __name__ == "__main__":
    main(sys.argv[1])
