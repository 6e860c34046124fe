"""Next-hour power of a photovoltaic park from the last 12 hours of weather and output."""
import math

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

HISTORY = 12


def weather_series(hours, seed):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(hours, dtype=torch.float32)
    elev = torch.sin(2 * math.pi * (t % 24 - 6) / 24).clamp(min=0)
    season = 1 + 0.3 * torch.sin(2 * math.pi * t / (24 * 365))
    cloud = torch.zeros(hours)
    temp = torch.zeros(hours)
    c, w = 0.4, 0.0
    eps = torch.randn(hours, 2, generator=g)
    for i in range(hours):
        c = min(max(0.92 * c + 0.08 * 0.4 + 0.09 * eps[i, 0].item(), 0.0), 1.0)
        w = 0.9 * w + 0.8 * eps[i, 1].item()
        cloud[i] = c
        temp[i] = 12 + 8 * elev[i] * season[i] + w
    power = 50 * elev * season * (1 - 0.75 * cloud) * (1 - 0.004 * (temp - 25))
    power = (power + 0.6 * torch.randn(hours, generator=g)).clamp(min=0)
    hour = t % 24
    cols = [elev, cloud, temp, power, torch.sin(2 * math.pi * hour / 24), torch.cos(2 * math.pi * hour / 24)]
    return torch.stack(cols, 1), power


def windows(feats, power):
    x = feats.unfold(0, HISTORY, 1).transpose(1, 2)[:-1]
    y = power[HISTORY:]
    return x.contiguous(), y


class GRUForecaster(nn.Module):
    def __init__(self, n_feat, hidden):
        super().__init__()
        self.rnn = nn.GRU(n_feat, hidden, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        _, h = self.rnn(x)
        return self.head(h[-1])


def pseudo_huber(pred, target, delta=0.5):
    err = (pred - target) / delta
    return (delta ** 2 * ((1 + err ** 2).sqrt() - 1)).mean()


class Trainer:
    def __init__(self, model, y_mu, y_sd, lr):
        self.model = model
        self.y_mu, self.y_sd = y_mu, y_sd
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)

    def fit_epoch(self, loader):
        self.model.train()
        total, n = 0.0, 0
        for xb, yb in loader:
            target = (yb - self.y_mu) / self.y_sd
            loss = pseudo_huber(self.model(xb).squeeze(-1), target)
            self.opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.opt.step()
            total += loss.item() * len(xb)
            n += len(xb)
        return total / n

    @torch.no_grad()
    def mae(self, x, y):
        self.model.eval()
        pred = self.model(x).flatten() * self.y_sd + self.y_mu
        return (pred - y).abs().mean().item()


def main():
    torch.manual_seed(11)
    feats, power = weather_series(24 * 150, seed=11)
    x, y = windows(feats, power)
    cut = int(0.8 * len(x))
    mu, sd = x[:cut].mean((0, 1)), x[:cut].std((0, 1))
    x = (x - mu) / sd
    gap = HISTORY
    x_tr, y_tr, x_va, y_va = x[:cut], y[:cut], x[cut + gap:], y[cut + gap:]
    loader = DataLoader(TensorDataset(x_tr, y_tr), batch_size=64, shuffle=True, drop_last=True)
    trainer = Trainer(GRUForecaster(x.shape[-1], 40), y_tr.mean(), y_tr.std(), lr=4e-3)
    for epoch in range(1, 8):
        loss = trainer.fit_epoch(loader)
        print(f"epoch {epoch:2d}  loss {loss:.4f}  valid MAE {trainer.mae(x_va, y_va):.3f} kW")
    print(f"final valid MAE: {trainer.mae(x_va, y_va):.4f}")


if __name__ == "__main__":
    main()
