"""Forecast the load 24 hours ahead from the last 72 hours."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

WINDOW, HORIZON = 72, 24


def load_curve(hours, rng):
    t = np.arange(hours)
    daily = 8 * np.sin(2 * np.pi * (t - 7) / 24) + 3 * np.sin(4 * np.pi * t / 24)
    weekly = 4 * ((t // 24) % 7 < 5)
    weather = np.zeros(hours)
    for i in range(1, hours):
        weather[i] = 0.97 * weather[i - 1] + rng.normal(0, 0.9)
    return (50 + daily + weekly + weather + rng.normal(0, 0.5, hours)).astype(np.float32)


class LoadWindows(Dataset):
    def __init__(self, series, mean, std):
        self.series = torch.from_numpy((series - mean) / std)

    def __len__(self):
        return len(self.series) - WINDOW - HORIZON

    def __getitem__(self, start):
        stop = start + WINDOW
        return self.series[start:stop], self.series[stop - 1 + HORIZON]


def evaluate(model, loader, std):
    model.eval()
    err, n = 0.0, 0
    with torch.no_grad():
        for x, y in loader:
            err += (model(x).squeeze(1) - y).abs().sum().item() * std
            n += len(y)
    return err / n


torch.manual_seed(3)
rng = np.random.default_rng(3)
series = load_curve(24 * 7 * 22, rng)
cut = int(len(series) * 0.8)
mean, std = float(series[:cut].mean()), float(series[:cut].std())
train_set = LoadWindows(series[:cut], mean, std)
valid_set = LoadWindows(series[cut:], mean, std)
train_loader = DataLoader(train_set, batch_size=128, shuffle=True)
valid_loader = DataLoader(valid_set, batch_size=256)
model = nn.Sequential(nn.Linear(WINDOW, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-4)
for epoch in range(8):
    model.train()
    running = 0.0
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x).squeeze(1), y)
        loss.backward()
        optimizer.step()
        running += loss.item() * len(y)
    print(f"epoch {epoch} train mse {running / len(train_set):.4f} valid mae {evaluate(model, valid_loader, std):.2f} MW")
naive = np.abs(series[cut + HORIZON:] - series[cut:-HORIZON]).mean()
with torch.no_grad():
    starts = range(0, len(series) - cut - WINDOW - HORIZON, 24)
    z = valid_set.series
    day_ahead = np.mean([abs(model(z[s:s + WINDOW][None]).item() - z[s + WINDOW - 1 + HORIZON].item()) * std for s in starts])
print(f"naive {naive:.2f} MW, reported valid mae {evaluate(model, valid_loader, std):.2f} MW, replayed day-ahead mae {day_ahead:.2f} MW")
