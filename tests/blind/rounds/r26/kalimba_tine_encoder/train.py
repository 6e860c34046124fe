"""Overtone stretch of kalimba tines (cents) from tap spectra.

Only few tines have been measured by ear and tuner, so a small head is trained on top of the encoder that was pretrained
on the bench recordings. The encoder stays as it is.
"""
import csv
import json
import sys

import numpy as np
import torch
import torch.nn as nn


class BenchEncoder(nn.Module):
    def __init__(self, bins, width):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(bins, width), nn.Linear(width, width), nn.Linear(width, width)])

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


class TineModel(nn.Module):
    def __init__(self, encoder, width, x_train):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(width, 1)
        with torch.no_grad():
            features = encoder(x_train)
        self.register_buffer("mean", features.mean(0))
        self.register_buffer("scale", features.std(0).clamp_min(1e-3))

    def forward(self, x):
        with torch.no_grad():
            features = (self.encoder(x) - self.mean) / self.scale
        return self.head(features).squeeze(1)


def read_tines(path, bins):
    x, y = [], []
    with open(path, newline="") as f:
        for row in csv.DictReader(f):
            x.append([float(row[f"bin_{b:02d}"]) for b in range(bins)])
            y.append(float(row["stretch_cents"]))
    return torch.tensor(x), torch.tensor(y)


def evaluate(model, x, y, mean, std):
    model.eval()
    with torch.no_grad():
        guess = model(x) * std + mean
    return (guess - y).abs().mean().item(), 1 - ((guess - y).pow(2).sum() / (y - y.mean()).pow(2).sum()).item()


def main():
    folder = sys.argv[1]
    with open(f"{folder}/setup.json") as f:
        setup = json.load(f)
    torch.manual_seed(setup["seed"])
    rng = np.random.default_rng(setup["seed"])

    x, y = read_tines(f"{folder}/tines.csv", setup["bins"])
    order = torch.from_numpy(rng.permutation(len(x)))
    train, val = order[:setup["train_tines"]], order[setup["train_tines"]:]
    mean, std = y[train].mean(), y[train].std()

    encoder = BenchEncoder(setup["bins"], setup["width"])
    encoder.load_state_dict(torch.load(f"{folder}/{setup['encoder']}", weights_only=True))
    encoder.requires_grad_(False)
    model = TineModel(encoder, setup["width"], x[train])

    opt = torch.optim.AdamW(model.head.parameters(), lr=setup["lr"], weight_decay=setup["weight_decay"])
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, setup["epochs"])
    loss_fn = nn.MSELoss()
    for epoch in range(1, setup["epochs"] + 1):
        model.train()
        total = 0.0
        shuffled = train[torch.from_numpy(rng.permutation(len(train)))]
        for batch in shuffled.split(setup["batch"]):
            loss = loss_fn(model(x[batch]), (y[batch] - mean) / std)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(batch)
        sched.step()
        if epoch % 30 == 0:
            mae, r2 = evaluate(model, x[val], y[val], mean, std)
            print(f"epoch {epoch:3d}  train mse {total / len(train):.4f}  val MAE {mae:5.2f} cents  R2 {r2:.3f}")


if __name__ == "__main__":
    main()
