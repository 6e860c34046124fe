import argparse
import json
import os

import numpy as np
import pandas as pd
import torch
from torch import nn


class OrdinalHead(nn.Module):
    """Cumulative logits with ordered thresholds."""

    def __init__(self, levels):
        super().__init__()
        self.first = nn.Parameter(torch.tensor(-2.0))
        self.steps = nn.Parameter(torch.zeros(levels - 2))

    def forward(self, score):
        cuts = torch.cat([self.first[None], self.first + nn.functional.softplus(self.steps).cumsum(0)])
        return score[:, None] - cuts


class Satisfaction(nn.Module):
    def __init__(self, d, levels, hidden=32):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(d, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.head = OrdinalHead(levels)

    def forward(self, x):
        return self.head(self.score(x).squeeze(1))

    def expected(self, x):
        return 1 + torch.sigmoid(self.forward(x)).sum(1)


def load(folder, names, features):
    df = pd.concat([pd.read_csv(os.path.join(folder, n)) for n in names], ignore_index=True)
    return df[features].to_numpy(np.float32), df["satisfaction"].to_numpy(np.int64)


def mae(model, x, y):
    model.eval()
    with torch.no_grad():
        return (model.expected(x) - y).abs().mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder")
    folder = p.parse_args().folder
    with open(os.path.join(folder, "survey.json")) as fh:
        cfg = json.load(fh)
    torch.manual_seed(cfg["seed"])
    x, y = load(folder, cfg["train_waves"], cfg["features"])
    vx, vy = load(folder, cfg["valid_waves"], cfg["features"])
    mu, sd = x.mean(0), x.std(0)
    x, vx = torch.from_numpy((x - mu) / sd), torch.from_numpy((vx - mu) / sd)
    y, vy = torch.from_numpy(y), torch.from_numpy(vy)
    levels = cfg["levels"]
    above = (y[:, None] > torch.arange(1, levels)).float()
    model = Satisfaction(x.shape[1], levels)
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    for epoch in range(cfg["epochs"]):
        model.train()
        for idx in torch.randperm(len(y)).split(cfg["batch"]):
            loss = nn.functional.binary_cross_entropy_with_logits(model(x[idx]), above[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
        if (epoch + 1) % 4 == 0:
            print(f"epoch {epoch + 1} loss {loss.item():.4f} valid MAE {mae(model, vx, vy):.4f}")
    print(f"valid MAE {mae(model, vx, vy):.4f}")


if __name__ == "__main__":
    main()
