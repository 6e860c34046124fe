import argparse
import csv
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn


def load_priors(path, species):
    with open(path) as fh:
        share = {row["species"]: float(row["share"]) for row in csv.DictReader(fh)}
    p = torch.tensor([share[s] for s in species])
    return p / p.sum()


class LogitAdjusted(nn.Module):
    """Cross entropy with class priors added to the logits during training."""

    def __init__(self, priors, tau=1.0):
        super().__init__()
        self.register_buffer("offset", tau * priors.log())

    def forward(self, logits, target):
        return nn.functional.cross_entropy(logits + self.offset, target)


def build(d, k):
    return nn.Sequential(nn.Linear(d, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, k))


def balanced_accuracy(model, x, y, k):
    model.eval()
    with torch.no_grad():
        pred = model(x).argmax(1)
    return float(np.mean([(pred[y == c] == c).float().mean().item() for c in range(k)]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    torch.manual_seed(20)
    train = pd.read_csv(folder / "recordings_train.csv")
    valid = pd.read_csv(folder / "recordings_valid.csv")
    species = sorted(train["species"].unique())
    feats = [c for c in train.columns if c.startswith("mfcc")]
    mean, std = train[feats].mean(), train[feats].std()

    def tensors(df):
        x = torch.tensor(((df[feats] - mean) / std).to_numpy(), dtype=torch.float32)
        return x, torch.tensor([species.index(s) for s in df["species"]])

    x, y = tensors(train)
    vx, vy = tensors(valid)
    k = len(species)
    model = build(len(feats), k)
    criterion = LogitAdjusted(load_priors(folder / "class_priors.csv", species))
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    for epoch in range(12):
        model.train()
        perm = torch.randperm(len(y))
        for i in range(0, len(perm) - 63, 64):
            idx = perm[i:i + 64]
            loss = criterion(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
        if epoch % 3 == 2:
            print(f"epoch {epoch + 1} loss {loss.item():.4f} balanced acc {balanced_accuracy(model, vx, vy, k):.4f}")
    print(f"balanced accuracy {balanced_accuracy(model, vx, vy, k):.4f}")


if __name__ == "__main__":
    main()
