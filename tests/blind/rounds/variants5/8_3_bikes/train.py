import argparse
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def calendar(frame):
    doy = frame["day"].dt.day_of_year.to_numpy()[:, None] / 365.25 * 2 * np.pi * np.arange(1, 4)
    dow = np.eye(7)[frame["day"].dt.day_of_week.to_numpy()]
    shift = np.eye(3)[frame["shift"].to_numpy()]
    weather = frame[["rain_mm", "wind_kmh"]].to_numpy()
    return np.hstack([np.sin(doy), np.cos(doy), dow, shift, np.log1p(weather)]).astype(np.float32)


class Rentals(Dataset):
    def __init__(self, frame, mean=None, std=None):
        self.x = calendar(frame)
        self.y = frame["rentals"].to_numpy(np.float32)
        self.mean = self.x.mean(0) if mean is None else mean
        self.std = self.x.std(0) if std is None else std
        self.x = (self.x - self.mean) / self.std

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class PoissonNet(nn.Module):
    def __init__(self, d, width):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(d, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.rate = nn.Linear(width, 1)

    def forward(self, x):
        return self.rate(self.body(x)).squeeze(1)


def mape_r2(model, data):
    model.eval()
    x, y = torch.from_numpy(data.x), torch.from_numpy(data.y)
    with torch.no_grad():
        mu = model(x).exp()
    return ((mu - y).abs().sum() / y.sum()).item(), (1 - (mu - y).pow(2).sum() / (y - y.mean()).pow(2).sum()).item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("folder", type=Path)
    ap.add_argument("--epochs", type=int, default=18)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--seed", type=int, default=0)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    frame = pd.read_csv(args.folder / "rentals.csv", parse_dates=["day"])
    year = frame["day"].dt.year
    train = Rentals(frame[year <= 2021])
    valid, test = (Rentals(frame[year == y], train.mean, train.std) for y in (2022, 2023))
    loader = DataLoader(train, batch_size=64, shuffle=True)
    model = PoissonNet(train.x.shape[1], 48)
    with torch.no_grad():
        model.rate.bias.fill_(float(np.log(train.y.mean())))
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    criterion = nn.PoissonNLLLoss(log_input=True)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for x, y in loader:
            loss = criterion(model(x), y) / 100
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
        if epoch % 3 == 2:
            wape, r2 = mape_r2(model, valid)
            print(f"epoch {epoch + 1} loss {total / len(train):.4f} valid wape {wape:.4f} r2 {r2:.4f}")
    wape, r2 = mape_r2(model, test)
    print(f"test wape {wape:.4f} r2 {r2:.4f}")


if __name__ == "__main__":
    main()
