"""Radon in a show cave, estimated from the weather of the last day (the radon meter is often away)."""
import argparse
import csv
import os

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

COLUMNS = ("outside_c", "pressure_hpa", "visitors", "drip_per_min")
WINDOW = 36


def read_log(path):
    with open(path, newline="") as fh:
        rows = list(csv.DictReader(fh))
    x = np.array([[float(r[c]) if r[c] != "" else np.nan for c in COLUMNS] for r in rows], dtype=np.float32)
    y = np.array([float(r["radon_bq_m3"]) for r in rows], dtype=np.float32)
    hour = np.array([int(r["hour"]) for r in rows])
    missing = np.isnan(x)
    for j in range(x.shape[1]):
        known = np.flatnonzero(~missing[:, j])
        x[:, j] = np.interp(np.arange(len(x)), known, x[known, j])
    clock = np.stack([np.sin(2 * np.pi * hour / 24), np.cos(2 * np.pi * hour / 24)], 1).astype(np.float32)
    return x, missing.any(1).astype(np.float32)[:, None], clock, y


class Windows(Dataset):
    def __init__(self, log, mean, std, y_mean, y_std):
        x, missing, clock, y = log
        z = (x - mean) / std
        step = np.diff(z, axis=0, prepend=z[:1]) * 4.0
        self.series = torch.from_numpy(np.concatenate([z, step, missing, clock], 1).astype(np.float32))
        self.y = torch.from_numpy((y - y_mean) / y_std)

    def __len__(self):
        return len(self.y) - WINDOW + 1

    def __getitem__(self, i):
        return self.series[i:i + WINDOW], self.y[i + WINDOW - 1]


class CaveGRU(nn.Module):
    def __init__(self, n_in, hidden=40):
        super().__init__()
        self.gru = nn.GRU(n_in, hidden, batch_first=True)
        self.out = nn.Sequential(nn.Linear(hidden, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        h, _ = self.gru(x)
        return self.out(h[:, -1])[:, 0]


def validate(model, loader, scale):
    model.eval()
    pred, true = [], []
    with torch.no_grad():
        for x, y in loader:
            pred.append(model(x))
            true.append(y)
    pred, true = torch.cat(pred), torch.cat(true)
    mae = (pred - true).abs().mean().item() * scale
    r2 = 1 - ((pred - true) ** 2).mean().item() / true.var(unbiased=False).item()
    return mae, r2


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("folder")
    ap.add_argument("--epochs", type=int, default=8)
    args = ap.parse_args()
    torch.manual_seed(21)
    train_log = read_log(os.path.join(args.folder, "train.csv"))
    val_log = read_log(os.path.join(args.folder, "val.csv"))
    mean, std = train_log[0].mean(0), train_log[0].std(0)
    y_mean, y_std = float(train_log[3].mean()), float(train_log[3].std())
    train = Windows(train_log, mean, std, y_mean, y_std)
    val = Windows(val_log, mean, std, y_mean, y_std)
    loader = DataLoader(train, batch_size=64, shuffle=True)
    val_loader = DataLoader(val, batch_size=256)
    model = CaveGRU(train.series.shape[1])
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    loss_fn = nn.MSELoss()
    for epoch in range(args.epochs):
        model.train()
        seen, total = 0, 0.0
        for x, y in loader:
            opt.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            seen += len(y)
            total += loss.item() * len(y)
        sched.step()
        mae, r2 = validate(model, val_loader, y_std)
        print(f"epoch {epoch}  train mse {total / seen:.4f}  val MAE {mae:.0f} Bq/m3  R2 {r2:.3f}")


if __name__ == "__main__":
    main()
