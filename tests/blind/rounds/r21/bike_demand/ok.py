"""Hourly bike rental demand from calendar and weather columns."""
import math

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED = 11
EPOCHS = 15
BATCH = 128


def make_table(n, rng):
    hour = rng.integers(0, 24, n)
    weekday = rng.integers(0, 7, n)
    temp = 12 + 9 * np.sin(2 * np.pi * rng.random(n)) + rng.normal(0, 3, n)
    humidity = np.clip(rng.normal(62, 15, n), 10, 100)
    wind = rng.gamma(2.0, 6.0, n)
    rain = (rng.random(n) < 0.15).astype(float)

    work = (weekday < 5).astype(float)
    commute = np.exp(-((hour - 8) / 1.6) ** 2) + 1.2 * np.exp(-((hour - 17.5) / 2.0) ** 2)
    leisure = np.exp(-((hour - 14) / 4.0) ** 2)
    base = 40 + work * 310 * commute + (1 - work) * 260 * leisure
    factor = 0.55 + 0.03 * np.clip(temp, -5, 28) - 0.003 * (humidity - 60)
    demand = base * np.clip(factor, 0.1, None) * (1 - 0.55 * rain) * (1 - 0.006 * wind)
    demand = np.clip(demand + rng.normal(0, 12, n), 0, None)

    cols = np.stack([
        np.sin(2 * np.pi * hour / 24), np.cos(2 * np.pi * hour / 24),
        np.sin(4 * np.pi * hour / 24), np.cos(4 * np.pi * hour / 24),
        work, temp, humidity, wind, rain,
    ], axis=1)
    return cols.astype(np.float32), demand.astype(np.float32)


class DemandNet(nn.Module):
    def __init__(self, n_in, width=64):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(n_in, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(),
        )
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        return self.out(self.body(x)).squeeze(-1)


def smooth_error(pred, target, delta=1.0):
    gap = (pred - target).abs()
    small = 0.5 * gap ** 2
    large = delta * (gap - 0.5 * delta)
    return torch.where(gap < delta, small, large).mean()


@torch.no_grad()
def r2_score(model, loader, mean, std):
    model.eval()
    preds, truth = [], []
    for x, y in loader:
        preds.append(model(x).flatten())
        truth.append(y)
    pred = torch.cat(preds) * std + mean
    y = torch.cat(truth) * std + mean
    r2 = 1 - ((y - pred) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    mae = (y - pred).abs().mean()
    return r2.item(), mae.item()


def main():
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    x, y = make_table(9000, rng)
    cut = 7000
    mu, sd = x[:cut].mean(0), x[:cut].std(0)
    x = (x - mu) / sd
    y_mean, y_std = float(y[:cut].mean()), float(y[:cut].std())
    y = (y - y_mean) / y_std

    x, y = torch.from_numpy(x), torch.from_numpy(y)
    train = DataLoader(TensorDataset(x[:cut], y[:cut]), batch_size=BATCH, shuffle=True)
    valid = DataLoader(TensorDataset(x[cut:], y[cut:]), batch_size=512)

    model = DemandNet(x.shape[1])
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=EPOCHS)

    for epoch in range(1, EPOCHS + 1):
        model.train()
        running, seen = 0.0, 0
        for xb, yb in train:
            loss = smooth_error(model(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            running += loss.item() * len(xb)
            seen += len(xb)
        sched.step()
        if epoch % 5 == 0:
            r2, mae = r2_score(model, valid, y_mean, y_std)
            print(f"epoch {epoch:3d}  loss {running / seen:.4f}  val R2 {r2:.3f}  val MAE {mae:.1f} bikes")

    r2, mae = r2_score(model, valid, y_mean, y_std)
    print(f"final val R2 {r2:.4f}")


if __name__ == "__main__":
    main()
