"""Severity model for motor claims."""
import argparse
import random
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import yaml
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

NUM = ["driver_age", "vehicle_age", "vehicle_value", "horsepower", "bonus_malus", "density", "annual_km"]
CAT = ["region", "fuel"]


def seed_all(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def encode(frame, columns):
    dummies = pd.get_dummies(frame[CAT].astype(str)).reindex(columns=columns, fill_value=0)
    return np.hstack([frame[NUM].to_numpy(np.float32), dummies.to_numpy(np.float32)])


class SeverityNet(nn.Module):
    def __init__(self, n_in, hidden, dropout):
        super().__init__()
        layers, width = [], n_in
        for h in hidden:
            layers += [nn.Linear(width, h), nn.ReLU(), nn.Dropout(dropout)]
            width = h
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        return self.head(self.body(x)).squeeze(1)


def r2(model, x, y):
    model.eval()
    with torch.no_grad():
        pred = model(x)
    return 1 - ((pred - y) ** 2).sum().item() / ((y - y.mean()) ** 2).sum().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    cfg = yaml.safe_load((folder / "config.yaml").read_text())
    seed_all(cfg["seed"])

    frame = pd.read_csv(folder / "claims.csv")
    order = np.random.permutation(len(frame))
    a, b = int(0.7 * len(order)), int(0.85 * len(order))
    parts = [frame.iloc[ix] for ix in (order[:a], order[a:b], order[b:])]
    columns = pd.get_dummies(parts[0][CAT].astype(str)).columns
    xs = [encode(p, columns) for p in parts]
    ys = [np.log(p["claim_cost"].to_numpy(np.float32)) for p in parts]
    mu, sd = xs[0].mean(0), xs[0].std(0) + 1e-6
    ym, yd = ys[0].mean(), ys[0].std()
    data = [(torch.tensor((x - mu) / sd), torch.tensor((y - ym) / yd)) for x, y in zip(xs, ys)]

    train = DataLoader(TensorDataset(*data[0]), batch_size=cfg["train"]["batch_size"], shuffle=True)
    model = SeverityNet(xs[0].shape[1], cfg["model"]["hidden"], cfg["model"]["dropout"])
    opt = torch.optim.Adam(model.parameters(), lr=float(cfg["train"]["lr"]),
                           weight_decay=float(cfg["train"]["weight_decay"]))
    for epoch in range(cfg["train"]["epochs"]):
        model.train()
        total = 0.0
        for x, y in train:
            opt.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            opt.step()
            total += loss.item() * len(x)
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1} loss {total / len(data[0][0]):.4f} valid r2 {r2(model, *data[1]):.3f}")
    print(f"test r2 {r2(model, *data[2]):.4f}")


if __name__ == "__main__":
    main()
