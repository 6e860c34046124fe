import math

import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, Subset, random_split

torch.manual_seed(30)
PAST, AHEAD = 28, 7


def demand(n):
    t = torch.arange(n).float()
    trend = torch.cumsum(0.05 * torch.randn(n), 0)
    week = torch.sin(2 * math.pi * t / 7) + 0.5 * torch.cos(4 * math.pi * t / 7)
    return trend + week + 0.35 * torch.randn(n)


class Windows(Dataset):
    def __init__(self, series):
        self.series = series

    def __len__(self):
        return len(self.series) - PAST - AHEAD + 1

    def __getitem__(self, i):
        return self.series[i : i + PAST], self.series[i + PAST : i + PAST + AHEAD]


windows = Windows(demand(1200))
n_valid = len(windows) // 5
first_valid = len(windows) - n_valid
train_set = Subset(windows, range(first_valid - PAST - AHEAD + 1))
valid_set = Subset(windows, range(first_valid, len(windows)))


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(PAST, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, AHEAD))

    def forward(self, past):
        level = past.mean(1, keepdim=True)
        return level + self.net(past - level)


train_dl = DataLoader(train_set, batch_size=32, shuffle=True)
valid_dl = DataLoader(valid_set, batch_size=128)
model = Forecaster()
opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)

for epoch in range(12):
    model.train()
    total, count = 0.0, 0
    for past, future in train_dl:
        loss = F.mse_loss(model(past), future)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(past)
        count += len(past)
    model.eval()
    err = naive = rows = 0
    with torch.no_grad():
        for past, future in valid_dl:
            err += F.mse_loss(model(past), future).item() * len(past)
            naive += F.mse_loss(past[:, -7:], future).item() * len(past)
            rows += len(past)
    print(f"epoch {epoch:2d}  train {total / count:.4f}  valid {err / rows:.4f}  last week repeated {naive / rows:.4f}")
