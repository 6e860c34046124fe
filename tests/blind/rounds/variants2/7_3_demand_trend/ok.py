import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(12)
torch.manual_seed(12)
SPAN, WIDTH = 16, 5


def demand(n):
    t = np.arange(n)
    noise = np.zeros(n)
    for i in range(1, n):
        noise[i] = 0.8 * noise[i - 1] + rng.normal(0, 0.6)
    return 10 + 2.0 * np.sin(2 * np.pi * t / 24) + np.cos(2 * np.pi * t / 168) + noise


def trend(series):
    kernel = np.ones(WIDTH) / WIDTH
    padded = np.concatenate([np.full(WIDTH - 1, series[0]), series])
    return np.convolve(padded, kernel, mode="valid")


def table(series, level, scale):
    z = (series - level) / scale
    channels = np.stack([z, trend(z)], axis=1)
    inputs, target = [], []
    for end in range(SPAN + WIDTH, len(z) - WIDTH):
        inputs.append(channels[end - SPAN:end])
        target.append(z[end])
    return torch.tensor(np.array(inputs), dtype=torch.float32), torch.tensor(np.array(target), dtype=torch.float32)


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2 * SPAN, 1)
        self.net = nn.Sequential(nn.Linear(2 * SPAN, 48), nn.ReLU(), nn.Linear(48, 1))

    def forward(self, x):
        x = x.flatten(1)
        return (self.linear(x) + self.net(x)).squeeze(1)


series = demand(3000)
cut = 2400
level, scale = series[:cut].mean(), series[:cut].std()
x_train, y_train = table(series[:cut], level, scale)
x_val, y_val = table(series[cut:], level, scale)
model = Forecaster()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=8)
for epoch in range(8):
    model.train()
    for rows in torch.randperm(len(x_train)).split(64):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x_train[rows]), y_train[rows])
        loss.backward()
        optimizer.step()
    schedule.step()
    model.eval()
    with torch.no_grad():
        mse = nn.functional.mse_loss(model(x_val), y_val).item()
    naive = (x_val[:, -1, 0] - y_val).pow(2).mean().item()
    print(f"epoch {epoch} train {loss.item():.4f} val {mse:.4f} last-value forecast {naive:.4f}")
