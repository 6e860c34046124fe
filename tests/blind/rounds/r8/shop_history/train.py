"""Daily units per shop: a recurrent forecaster over the last four weeks."""
import csv
import os
import sys
from collections import defaultdict
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

LAGS = 28
EPOCHS, BATCH, LR = 8, 128, 4e-3


def read_history(path):
    """Exports come unordered; returns one array per shop in order of day."""
    with open(path, newline="") as fh:
        rows = list(csv.DictReader(fh))
    rows.sort(key=lambda r: (r["shop"], r["date"]))
    series = defaultdict(list)
    for r in rows:
        series[r["shop"]].append(float(r["units"]))
    return {shop: np.array(values, dtype=np.float32) for shop, values in series.items()}


def build(series, val_share=0.2):
    parts = {"train": ([], []), "val": ([], [])}
    for shop, units in series.items():
        logged = np.log1p(units)
        cut = int(len(units) * (1 - val_share))
        mean, std = logged[:cut].mean(), logged[:cut].std()
        z = (logged - mean) / std
        for t in range(LAGS, len(z)):
            xs, ys = parts["train" if t < cut else "val"]
            xs.append(z[t - LAGS:t])
            ys.append(z[t])
    return {k: (torch.from_numpy(np.stack(xs)), torch.tensor(np.array(ys))) for k, (xs, ys) in parts.items()}


class Forecaster(nn.Module):
    """Reads the four weeks one week at a time."""

    def __init__(self, hidden=32):
        super().__init__()
        self.gru = nn.GRU(7, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, lags):
        out, _ = self.gru(lags.view(len(lags), LAGS // 7, 7))
        return self.head(out[:, -1]).squeeze(1)


def main():
    torch.manual_seed(0)
    series = read_history(os.path.join(sys.argv[1], "sales.csv"))
    data = build(series)
    (x_train, y_train), (x_val, y_val) = data["train"], data["val"]
    print(f"{len(series)} shops, {len(x_train)} training rows, {len(x_val)} validation rows")

    model = Forecaster()
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    for epoch in range(1, EPOCHS + 1):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x_train)).split(BATCH):
            loss = F.mse_loss(model(x_train[idx]), y_train[idx])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item() * len(idx)
        model.eval()
        with torch.no_grad():
            pred = model(x_val)
        mae = (pred - y_val).abs().mean().item()
        print(f"epoch {epoch}  train mse {total / len(x_train):.4f}  val mse {F.mse_loss(pred, y_val).item():.4f}  val mae {mae:.4f}")
    mean_mae = (y_val - y_train.mean()).abs().mean().item()
    print(f"final val mae {mae:.4f}   constant forecast {mean_mae:.4f}")


if __name__ == "__main__":
    main()
