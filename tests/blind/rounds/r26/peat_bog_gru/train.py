"""Water table depth of a bog from the weather of the last month (GRU).

usage: python train.py DIR
Leaves one station out for validation, so the model must transfer to a place it has not seen.
"""
import csv
import json
import os
import sys
from collections import defaultdict

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def read_logger(path):
    series = defaultdict(list)
    with open(path) as f:
        for row in csv.DictReader(f):
            series[row["station"]].append(
                (int(row["day"]), float(row["air_temp_c"]), float(row["rain_mm"]), float(row["water_table_depth_cm"])))
    return {k: np.array([r[1:] for r in sorted(v)], dtype=np.float32) for k, v in series.items()}


def windows(arr, length):
    """Weather of `length` days, the depth on the day before the window, and the depth on its last day."""
    x, start, y = [], [], []
    for i in range(1, len(arr) - length + 1):
        x.append(arr[i:i + length, :2])
        start.append(arr[i - 1, 2])
        y.append(arr[i + length - 1, 2])
    return np.stack(x), np.array(start, np.float32), np.array(y, np.float32)


class BogNet(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.begin = nn.Linear(1, hidden)
        self.gru = nn.GRU(2, hidden, batch_first=True)
        self.out = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, weather, start):
        h0 = torch.tanh(self.begin(start.unsqueeze(1))).unsqueeze(0)
        states, _ = self.gru(weather, h0)
        return self.out(states[:, -1]).squeeze(1)


class Run:
    def __init__(self, folder):
        self.cfg = json.load(open(os.path.join(folder, "run.json")))
        torch.manual_seed(self.cfg["seed"])
        series = read_logger(os.path.join(folder, "logger.csv"))
        hold = self.cfg["valid_station"]
        pool = np.concatenate([v for k, v in series.items() if k != hold])
        self.mean, self.std = pool.mean(0), pool.std(0)
        parts = [windows(self.scale(v), self.cfg["window_days"]) for k, v in series.items() if k != hold]
        x, s, y = (torch.from_numpy(np.concatenate(c)) for c in zip(*parts))
        self.loader = DataLoader(TensorDataset(x, s, y), self.cfg["batch"], shuffle=True, drop_last=True)
        self.valid = [torch.from_numpy(a) for a in windows(self.scale(series[hold]), self.cfg["window_days"])]
        self.net = BogNet(self.cfg["hidden"])
        self.opt = torch.optim.Adam(self.net.parameters(), lr=self.cfg["lr"])
        d = self.cfg["decay"]
        self.sched = torch.optim.lr_scheduler.LambdaLR(self.opt, lambda n: d["factor"] ** (n // d["every"]))

    def scale(self, arr):
        return (arr - self.mean) / self.std

    @torch.no_grad()
    def mae_cm(self):
        self.net.eval()
        x, s, y = self.valid
        return (self.net(x, s) - y).abs().mean().item() * float(self.std[2])

    def fit(self):
        for epoch in range(1, self.cfg["epochs"] + 1):
            self.net.train()
            total, n = 0.0, 0
            for x, s, y in self.loader:
                loss = nn.functional.mse_loss(self.net(x, s), y)
                self.opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
                self.opt.step()
                self.sched.step()
                total, n = total + loss.item(), n + 1
            print(f"epoch {epoch:2d}  train mse {total / n:.4f}  left-out station MAE {self.mae_cm():.2f} cm")


if __name__ == "__main__":
    Run(sys.argv[1]).fit()
