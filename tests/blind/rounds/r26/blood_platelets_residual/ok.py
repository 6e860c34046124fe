"""Daily platelet order of a regional blood bank.

A platelet unit lives five days, so units left over are written off; a unit that
is missing has to be flown in by courier. The network proposes the order for tomorrow."""
import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WRITE_OFF_EUR = 90.0
COURIER_EUR = 810.0


def build_days(days, seed):
    rng = np.random.default_rng(seed)
    weekday = np.arange(days) % 7
    surgery = rng.poisson(np.where(weekday < 5, 18, 4))
    chemo = np.clip(np.round(14 + 5 * np.sin(np.arange(days) / 40) + rng.normal(0, 3, days)), 0, None)
    ward = rng.poisson(22, days)
    trauma_alert = (rng.random(days) < 0.12).astype(float)
    holiday = (rng.random(days) < 0.04).astype(float)
    temp = 11 + 9 * np.sin(2 * np.pi * np.arange(days) / 365) + rng.normal(0, 2, days)
    level = (8 + 0.9 * surgery * (1 - 0.6 * holiday) + 0.8 * chemo + 0.25 * ward
             + 6 * trauma_alert + 0.03 * np.maximum(temp - 15, 0) ** 2)
    spread = 2.0 + 0.22 * surgery + 6.0 * trauma_alert
    demand = np.clip(level + spread * (rng.gamma(2.0, 1.0, days) - 2.0), 0, None)
    columns = np.column_stack([
        surgery, chemo, ward, trauma_alert, holiday, temp,
        np.sin(2 * np.pi * weekday / 7), np.cos(2 * np.pi * weekday / 7),
    ])
    return columns.astype(np.float32), demand.astype(np.float32)


class ResBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.body = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, x):
        return x + self.body(x)


class OrderNet(nn.Module):
    def __init__(self, n_in, dim, unit):
        super().__init__()
        self.unit = unit
        self.net = nn.Sequential(nn.Linear(n_in, dim), ResBlock(dim), ResBlock(dim), nn.LayerNorm(dim), nn.Linear(dim, 1))

    def forward(self, x):
        return self.unit * (1.0 + self.net(x).squeeze(-1))


class StockCost(nn.Module):
    def __init__(self, write_off, courier):
        super().__init__()
        self.write_off = write_off
        self.courier = courier

    def forward(self, order, demand):
        gap = order - demand
        return (self.write_off * gap.clamp(min=0) - self.courier * gap.clamp(max=0)).mean() / 100


def daily_bill(order, demand):
    left = np.maximum(order - demand, 0)
    missing = np.maximum(demand - order, 0)
    return (left * WRITE_OFF_EUR + missing * COURIER_EUR).mean(), (missing > 0).mean()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--days", type=int, default=2900)
    ap.add_argument("--epochs", type=int, default=25)
    ap.add_argument("--dim", type=int, default=48)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--seed", type=int, default=11)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    x, demand = build_days(args.days, args.seed)
    first_val = int(args.days * 0.8)
    mean, std = x[:first_val].mean(0), x[:first_val].std(0)
    x = torch.from_numpy((x - mean) / std)
    y = torch.from_numpy(demand)
    loader = DataLoader(TensorDataset(x[:first_val], y[:first_val]), batch_size=64, shuffle=True)
    model = OrderNet(x.shape[1], args.dim, float(y[:first_val].mean()))
    criterion = StockCost(WRITE_OFF_EUR, COURIER_EUR)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, epochs=args.epochs, steps_per_epoch=len(loader))
    for epoch in range(args.epochs):
        model.train()
        seen, running = 0, 0.0
        for xb, yb in loader:
            loss = criterion(model(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            running += loss.item() * len(yb)
            seen += len(yb)
        if (epoch + 1) % 5 == 0:
            model.eval()
            with torch.no_grad():
                order = model(x[first_val:]).numpy()
            bill, short = daily_bill(order, demand[first_val:])
            print(f"epoch {epoch + 1:3d} | train cost {running / seen:.3f} | "
                  f"val bill {bill:.0f} EUR/day | days short {100 * short:.0f} %")
    flat = np.quantile(demand[:first_val], COURIER_EUR / (COURIER_EUR + WRITE_OFF_EUR))
    print(f"constant order of {flat:.0f} units: {daily_bill(flat, demand[first_val:])[0]:.0f} EUR/day")


if __name__ == "__main__":
    main()
