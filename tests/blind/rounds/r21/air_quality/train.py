"""Forecast of PM2.5 one hour ahead from station records."""
import csv
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F

folder = sys.argv[1]
torch.manual_seed(0)

FEATURES = ["no2", "co", "benzene", "traffic", "temp_c", "rel_hum", "wind_ms", "pressure_hpa"]
TARGET = "pm25_next"


def read_records(path):
    parts = {"train": ([], [], []), "test": ([], [], [])}
    with open(path, newline="") as f:
        for row in csv.DictReader(f):
            values = [float(row[c]) if row[c] != "" else np.nan for c in FEATURES]
            xs, hs, ys = parts[row["split"]]
            xs.append(values)
            hs.append(float(row["hour"]))
            ys.append(float(row[TARGET]))
    return {k: tuple(np.array(v, dtype=np.float32) for v in p) for k, p in parts.items()}


class Preprocessor:
    """Fills gaps with the training median, then standardises."""

    def fit(self, x):
        self.median = np.nanmedian(x, axis=0)
        filled = self.fill(x)
        self.mean, self.scale = filled.mean(0), filled.std(0) + 1e-6
        return self

    def fill(self, x):
        return np.where(np.isnan(x), self.median, x)

    def __call__(self, x, hour):
        z = (self.fill(x) - self.mean) / self.scale
        angle = 2 * np.pi * hour[:, None] / 24
        z = np.concatenate([z, np.sin(angle), np.cos(angle)], axis=1)
        return torch.from_numpy(z.astype(np.float32))


class Forecaster(torch.nn.Module):
    def __init__(self, n_in, n_hidden):
        super().__init__()
        self.fc1 = torch.nn.Linear(n_in, n_hidden)
        self.fc2 = torch.nn.Linear(n_hidden, n_hidden)
        self.fc3 = torch.nn.Linear(n_hidden, 1)

    def forward(self, x):
        x = F.gelu(self.fc1(x))
        x = F.gelu(self.fc2(x))
        return self.fc3(x)[:, 0]


records = read_records(os.path.join(folder, "stations.csv"))
x_raw, hour, y = records["train"]
prep = Preprocessor().fit(x_raw)
x_train = prep(x_raw, hour)
x_test = prep(records["test"][0], records["test"][1])
y_mean, y_std = float(y.mean()), float(y.std())
y_train = torch.from_numpy((y - y_mean) / y_std)
y_test = torch.from_numpy(records["test"][2])

model = Forecaster(x_train.shape[1], 40)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-4)
epochs, batch = 8, 64
scheduler = torch.optim.lr_scheduler.OneCycleLR(
    optimizer, max_lr=6e-3, epochs=epochs, steps_per_epoch=-(-len(x_train) // batch))

for epoch in range(epochs):
    model.train()
    order = torch.randperm(len(x_train))
    epoch_loss = 0.0
    for idx in order.split(batch):
        loss = F.mse_loss(model(x_train[idx]), y_train[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        epoch_loss += loss.item() * len(idx)

    model.eval()
    with torch.no_grad():
        guess = model(x_test) * y_std + y_mean
    rmse = (guess - y_test).pow(2).mean().sqrt().item()
    print(f"epoch {epoch + 1}: train loss {epoch_loss / len(x_train):.4f}, test RMSE {rmse:.3f} ug/m3")

r2 = 1 - (guess - y_test).pow(2).sum() / (y_test - y_test.mean()).pow(2).sum()
print(f"test R2 {r2.item():.4f}, test RMSE {rmse:.3f}")
