import argparse
import json
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn


def parse():
    p = argparse.ArgumentParser(description="crop yield from soil samples")
    p.add_argument("folder", type=Path)
    return p.parse_args()


class Table:
    """Numeric table with median imputation and standardization learned on the first frame."""

    def __init__(self, frame, columns):
        self.columns = columns
        self.median = frame[columns].median()
        filled = frame[columns].fillna(self.median)
        self.mean, self.std = filled.mean(), filled.std()

    def __call__(self, frame):
        filled = frame[self.columns].fillna(self.median)
        missing = frame[self.columns].isna().to_numpy(np.float32)
        z = ((filled - self.mean) / self.std).to_numpy(np.float32)
        return torch.from_numpy(np.hstack([z, missing]))


class YieldNet(nn.Module):
    def __init__(self, width_in, width):
        super().__init__()
        self.first = nn.Linear(width_in, width)
        self.second = nn.Linear(width, width)
        self.last = nn.Linear(width, 1)

    def forward(self, x):
        h = torch.relu(self.first(x))
        h = h + torch.relu(self.second(h))
        return self.last(h)[:, 0]


def rmse(model, x, y, scale):
    model.eval()
    with torch.no_grad():
        return float(((model(x) - y) ** 2).mean().sqrt() * scale)


def main():
    folder = parse().folder
    conf = json.loads((folder / "config.json").read_text())
    torch.manual_seed(conf["seed"])
    train = pd.read_csv(folder / "samples_train.csv")
    test = pd.read_csv(folder / "samples_test.csv")
    prep = Table(train, conf["columns"])
    x, vx = prep(train), prep(test)
    target = conf["target"]
    mu, sd = train[target].mean(), train[target].std()
    y = torch.tensor(((train[target] - mu) / sd).to_numpy(np.float32))
    vy = torch.tensor(((test[target] - mu) / sd).to_numpy(np.float32))

    model = YieldNet(x.shape[1], conf["width"])
    opt = torch.optim.SGD(model.parameters(), lr=conf["lr"], momentum=0.9, weight_decay=1e-4)
    for epoch in range(conf["epochs"]):
        model.train()
        for idx in torch.randperm(len(y)).split(conf["batch"]):
            opt.zero_grad()
            loss = nn.functional.mse_loss(model(x[idx]), y[idx])
            loss.backward()
            opt.step()
        if (epoch + 1) % 5 == 0:
            print(f"epoch {epoch + 1}: train {rmse(model, x, y, sd):.3f} t/ha, test {rmse(model, vx, vy, sd):.3f} t/ha")
    print(f"test rmse {rmse(model, vx, vy, sd):.3f}")


if __name__ == "__main__":
    main()
