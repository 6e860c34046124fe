"""PM2.5 three hours ahead from the last day of measurements, all stations pooled."""
import csv
import glob
import os
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

COLUMNS = ["pm25", "no2", "temp", "wind"]


@dataclass
class Config:
    history: int = 24
    ahead: int = 3
    hidden: int = 32
    batch_size: int = 64
    epochs: int = 8
    lr: float = 3e-3
    val_share: float = 0.2


def read_station(path):
    with open(path, newline="") as fh:
        rows = list(csv.DictReader(fh))
    raw = np.array([[float(r[c]) if r[c] != "" else np.nan for c in COLUMNS] for r in rows])
    return np.array([int(r["hour"]) for r in rows]), raw


def fill_forward(raw):
    out = raw.copy()
    for i in range(1, len(out)):
        hole = np.isnan(out[i])
        out[i, hole] = out[i - 1, hole]
    return out


class Windows(Dataset):
    def __init__(self, series, cfg, mean, std):
        self.items, self.cfg = [], cfg
        self.series = []
        for s, (hours, raw) in enumerate(series):
            filled = (fill_forward(raw) - mean) / std
            clock = np.stack([np.sin(hours * 2 * np.pi / 24), np.cos(hours * 2 * np.pi / 24)], 1)
            self.series.append(np.concatenate([filled, clock], 1).astype(np.float32))
            for end in range(cfg.history, len(raw) - cfg.ahead):
                if not np.isnan(raw[end + cfg.ahead - 1, 0]):
                    self.items.append((s, end))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        s, end = self.items[i]
        data = self.series[s]
        return data[end - self.cfg.history:end], data[end + self.cfg.ahead - 1, 0]


class Forecaster(nn.Module):
    def __init__(self, d_in, hidden):
        super().__init__()
        self.rnn = nn.GRU(d_in, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, x):
        out, _ = self.rnn(x)
        return x[:, -1, 0] + self.head(out[:, -1]).squeeze(1)


def evaluate(model, loader, scale):
    model.eval()
    total, n = 0.0, 0
    with torch.no_grad():
        for x, y in loader:
            total += (model(x) - y).abs().sum().item() * scale
            n += len(y)
    return total / n


def load(cfg):
    train, val = [], []
    for path in sorted(glob.glob(os.path.join("data", "*.csv"))):
        hours, raw = read_station(path)
        cut = int(len(raw) * (1 - cfg.val_share))
        train.append((hours[:cut], raw[:cut]))
        val.append((hours[cut:], raw[cut:]))
    pooled = np.concatenate([raw for _, raw in train])
    return train, val, np.nanmean(pooled, axis=0), np.nanstd(pooled, axis=0)


def main(cfg):
    torch.manual_seed(6)
    train, val, mean, std = load(cfg)
    train_loader = DataLoader(Windows(train, cfg, mean, std), cfg.batch_size, shuffle=True)
    val_loader = DataLoader(Windows(val, cfg, mean, std), 256)
    print(f"stations {len(train)}, windows {len(train_loader.dataset)} / {len(val_loader.dataset)}")
    model = Forecaster(len(COLUMNS) + 2, cfg.hidden)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.85)
    for epoch in range(cfg.epochs):
        model.train()
        losses = []
        for x, y in train_loader:
            loss = nn.functional.mse_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            losses.append(loss.item())
        sched.step()
        mae = evaluate(model, val_loader, float(std[0]))
        print(f"epoch {epoch} train mse {np.mean(losses):.4f} val MAE {mae:.3f} ug/m3")
    return model, mean, std


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Config())
