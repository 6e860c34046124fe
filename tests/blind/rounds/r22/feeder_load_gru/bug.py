"""Six-hour-ahead load forecast for distribution feeders from a day of hourly readings."""
import math

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(11)

HISTORY = 28
HORIZON = 6
N_FEEDERS = 2400


def simulate_feeders(n):
    hours = torch.arange(HISTORY + HORIZON).float()
    period = torch.empty(n, 1).uniform_(9.0, 26.0)
    phase = torch.empty(n, 1).uniform_(0, 2 * math.pi)
    level = torch.randn(n, 1) * 0.4
    amp = torch.empty(n, 1).uniform_(0.7, 1.4)
    load = level + amp * torch.sin(2 * math.pi * hours / period + phase)
    load = load + 0.08 * torch.randn_like(load)
    temp = 0.6 * torch.cos(2 * math.pi * hours / 24 + phase) + 0.3 * torch.randn_like(load)
    x = torch.stack([load[:, :HISTORY], temp[:, :HISTORY]], dim=-1)
    y = load[:, -1]
    return x, y


class LoadForecaster(nn.Module):
    def __init__(self, n_features=2, hidden=32):
        super().__init__()
        self.rnn = nn.GRU(n_features, hidden)
        self.head = nn.Sequential(nn.Linear(hidden, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        states, _ = self.rnn(x)
        return self.head(states[:, -1]).squeeze(-1)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    abs_err, n = 0.0, 0
    for x, y in loader:
        abs_err += (model(x) - y).abs().sum().item()
        n += len(y)
    return abs_err / n


def main():
    x, y = simulate_feeders(N_FEEDERS)
    cut = int(0.8 * N_FEEDERS)
    mean, std = x[:cut].mean((0, 1)), x[:cut].std((0, 1))
    x = (x - mean) / std
    train_loader = DataLoader(TensorDataset(x[:cut], y[:cut]), batch_size=48, shuffle=True)
    val_loader = DataLoader(TensorDataset(x[cut:], y[cut:]), batch_size=128)

    model = LoadForecaster()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=7)
    criterion = nn.SmoothL1Loss()

    for epoch in range(1, 8):
        model.train()
        total = 0.0
        for xb, yb in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(xb), yb)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item() * len(yb)
        scheduler.step()
        print(f"epoch {epoch:2d}  train loss {total / cut:.4f}  val MAE {validate(model, val_loader):.4f}")

    print(f"final validation MAE {validate(model, val_loader):.4f}")


if __name__ == "__main__":
    main()
