"""Hourly metro ridership: one-step net, rolled out for a day ahead."""
import math
from dataclasses import dataclass
import torch
import torch.nn as nn


@dataclass
class Settings:
    window: int = 24
    horizon: int = 12
    hidden: int = 48
    epochs: int = 12
    batch: int = 64
    lr: float = 3e-3


def hourly_counts(hours, seed):
    g = torch.Generator().manual_seed(seed)
    h = torch.arange(hours).float()
    day = torch.sin(2 * math.pi * h / 24) + 0.6 * torch.sin(4 * math.pi * h / 24 + 0.5)
    weekend = ((h // 24) % 7 >= 5).float()
    noise = 0.05 * torch.randn(hours, generator=g)
    return day * (1 - 0.3 * weekend) + noise


def one_step_pairs(series, window):
    w = series.unfold(0, window + 1, 1)
    return w[:, :window], w[:, window:]


@torch.no_grad()
def roll_forward(net, history, horizon):
    """history: (batch, window) -> (batch, horizon)"""
    window, out = history.clone(), []
    for _ in range(horizon):
        nxt = net(window)
        out.append(nxt)
        window = torch.cat([window[:, :-1], nxt], dim=1)
    return torch.cat(out, dim=1)


def fit(net, x, y, cfg):
    opt = torch.optim.Adam(net.parameters(), lr=cfg.lr)
    for epoch in range(cfg.epochs):
        losses = []
        for rows in torch.randperm(len(x)).split(cfg.batch):
            loss = nn.functional.mse_loss(net(x[rows]), y[rows])
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        if epoch % 4 == 3:
            print(f"epoch {epoch + 1} one-step mse {sum(losses) / len(losses):.4f}")


def main():
    cfg = Settings()
    torch.manual_seed(37)
    series = hourly_counts(24 * 70, 1)
    cut = 24 * 56
    net = nn.Sequential(nn.Linear(cfg.window, cfg.hidden), nn.ReLU(), nn.Linear(cfg.hidden, 1))
    fit(net, *one_step_pairs(series[:cut], cfg.window), cfg)
    test = series[cut:].unfold(0, cfg.window + cfg.horizon, 3)
    forecast = roll_forward(net, test[:, :cfg.window], cfg.horizon)
    mae = (forecast - test[:, cfg.window:]).abs().mean().item()
    print(f"{cfg.horizon}-hour forecast MAE {mae:.3f}")


if __name__ == "__main__":
    main()
