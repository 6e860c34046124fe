"""Rain rate at the gauge in 10 minutes from twelve radar scans at four elevations."""
import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def load(path):
    with np.load(path) as z:
        return torch.from_numpy(z["dbz"].astype(np.float32)), torch.from_numpy(z["rate"])


class GaugeNet(nn.Module):
    def __init__(self, elevations=4, steps=12, width=24):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(elevations, width, 3, padding=1), nn.ReLU(),
                                  nn.Conv1d(width, width, 3, padding=1), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(width * steps, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        return self.head(self.conv(x).flatten(1)).squeeze(1)


def lr_factor(step, warmup, total):
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))


def main(folder):
    folder = Path(folder)
    cfg = json.loads((folder / "config.json").read_text())
    torch.manual_seed(cfg["seed"])
    x_tr, y_tr = load(folder / "radar_train.npz")
    x_va, y_va = load(folder / "radar_valid.npz")
    x_mean, x_std = x_tr.mean(), x_tr.std()
    y_mean, y_std = y_tr.mean(), y_tr.std()
    train_set = TensorDataset((x_tr - x_mean) / x_std, (y_tr - y_mean) / y_std)
    x_va = (x_va - x_mean) / x_std
    loader = DataLoader(train_set, batch_size=cfg["batch_size"], shuffle=True)

    model = GaugeNet()
    o = cfg["optim"]
    opt = torch.optim.AdamW(model.parameters(), lr=o["lr"], weight_decay=o["weight_decay"])
    total = cfg["epochs"] * len(loader)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: lr_factor(s, o["warmup_steps"], total))
    loss_fn = nn.MSELoss()
    baseline = ((y_va - y_mean) ** 2).mean().sqrt().item()
    print(f"{len(train_set)} samples, climatology RMSE {baseline:.3f} mm/h")
    for epoch in range(1, cfg["epochs"] + 1):
        model.train()
        running = 0.0
        for xb, yb in loader:
            opt.zero_grad()
            loss = loss_fn(model(xb), yb)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            running += loss.item() * len(xb)
        model.eval()
        with torch.no_grad():
            pred = model(x_va) * y_std + y_mean
            rmse = ((pred - y_va) ** 2).mean().sqrt().item()
        if epoch % 3 == 0:
            print(f"epoch {epoch:2d}  train {running / len(train_set):.4f}  valid RMSE {rmse:.3f} mm/h")


if __name__ == "__main__":
    main(sys.argv[1])
