import argparse
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn

torch.set_default_dtype(torch.float32)


def fold(folder, part):
    desc = pd.read_csv(folder / f"{part}_descriptors.csv")
    meas = pd.read_csv(folder / f"{part}_glass_temp.csv")
    if len(desc) != len(meas):
        raise ValueError(f"{part}: {len(desc)} descriptors but {len(meas)} measurements")
    return desc.drop(columns="sample").to_numpy(np.float32), meas["tg"].to_numpy(np.float32)


class Regressor:
    def __init__(self, x, y, hidden=64, lr=2e-3, seed=0):
        torch.manual_seed(seed)
        self.xs = x.mean(0), x.std(0)
        self.ys = y.mean(), y.std()
        self.x = self.scale(x)
        self.y = torch.from_numpy((y - self.ys[0]) / self.ys[1])
        self.net = nn.Sequential(nn.Linear(x.shape[1], hidden), nn.ELU(), nn.Linear(hidden, hidden), nn.ELU(), nn.Linear(hidden, 1))
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=lr, weight_decay=1e-2)

    def scale(self, x):
        return torch.from_numpy((x - self.xs[0]) / self.xs[1])

    def fit(self, epochs, size, report):
        for e in range(epochs):
            self.net.train()
            for idx in torch.randperm(len(self.y)).split(size):
                loss = ((self.net(self.x[idx]).squeeze(1) - self.y[idx]) ** 2).mean()
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
            if (e + 1) % 5 == 0:
                report(e + 1, loss.item())
        return self

    def predict(self, x):
        self.net.eval()
        with torch.no_grad():
            return self.net(self.scale(x)).squeeze(1).numpy() * self.ys[1] + self.ys[0]


def r2(y, p):
    return 1 - float(((y - p) ** 2).sum() / ((y - y.mean()) ** 2).sum())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    x, y = fold(folder, "train")
    vx, vy = fold(folder, "valid")
    reg = Regressor(x, y)
    reg.fit(20, 64, lambda e, l: print(f"epoch {e} batch loss {l:.4f} valid R2 {r2(vy, reg.predict(vx)):.4f}"))
    print(f"valid R2 {r2(vy, reg.predict(vx)):.4f}")
