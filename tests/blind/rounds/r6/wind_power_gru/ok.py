"""Day-ahead wind farm output from the last 20 hours of mast measurements."""
import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def simulate_mast(hours, seed):
    rng = np.random.default_rng(seed)
    speed = np.zeros(hours)
    g1 = g2 = 0.0
    for t in range(hours):
        g1, g2 = 1.78 * g1 - 0.96 * g2 + rng.normal(0, 0.35), g1
        speed[t] = 8 + 0.8 * np.sin(2 * np.pi * t / 24) + g1
    speed = np.clip(speed, 0, None)
    pressure = 1013 - 0.8 * np.convolve(speed - 8, np.ones(6) / 6, mode="same") + rng.normal(0, 1, hours)
    hour = np.arange(hours) % 24
    power = 1 / (1 + np.exp(-(speed - 9) / 1.3)) + rng.normal(0, 0.02, hours)
    speed = speed + rng.normal(0, 0.5, hours)
    feats = np.stack([speed, pressure, np.sin(2 * np.pi * hour / 24),
                      np.cos(2 * np.pi * hour / 24), power], 1)
    return feats.astype(np.float32), power.astype(np.float32)


def make_windows(feats, power, start, stop, length, lead):
    xs, ys = [], []
    for t in range(start, stop - length - lead):
        xs.append(feats[t:t + length])
        ys.append(power[t + length + lead - 1])
    return torch.from_numpy(np.stack(xs)), torch.tensor(np.array(ys))


class PowerForecaster(nn.Module):
    def __init__(self, n_features, hidden):
        super().__init__()
        self.rnn = nn.GRU(n_features, hidden, batch_first=True)
        self.out = nn.Sequential(nn.Linear(hidden, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x):
        h, _ = self.rnn(x)
        return self.out(h[:, -1]).squeeze(-1)


def evaluate(model, loader):
    model.eval()
    se, n = 0.0, 0
    with torch.no_grad():
        for x, y in loader:
            se += ((model(x) - y) ** 2).sum().item()
            n += len(y)
    return (se / n) ** 0.5


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--hours", type=int, default=2400)
    ap.add_argument("--window", type=int, default=20)
    ap.add_argument("--lead", type=int, default=3)
    ap.add_argument("--hidden", type=int, default=32)
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--batch-size", type=int, default=64)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--seed", type=int, default=3)
    args = ap.parse_args()
    torch.manual_seed(args.seed)

    feats, power = simulate_mast(args.hours, args.seed)
    cut = int(0.8 * args.hours)
    mean, std = feats[:cut].mean(0), feats[:cut].std(0)
    feats = (feats - mean) / std
    train = TensorDataset(*make_windows(feats, power, 0, cut, args.window, args.lead))
    valid = TensorDataset(*make_windows(feats, power, cut, args.hours, args.window, args.lead))
    train_dl = DataLoader(train, batch_size=args.batch_size, shuffle=True)
    valid_dl = DataLoader(valid, batch_size=64)

    model = PowerForecaster(feats.shape[1], args.hidden)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        model.train()
        running = 0.0
        for x, y in train_dl:
            opt.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            running += loss.item() * len(y)
        print(f"epoch {epoch + 1:2d}  train rmse {(running / len(train)) ** 0.5:.4f}  "
              f"valid rmse {evaluate(model, valid_dl):.4f}")
    vx, vy = valid.tensors
    last = vx[:, -1, 4] * float(std[4]) + float(mean[4])
    print(f"persistence rmse {((last - vy) ** 2).mean().sqrt():.4f}")


if __name__ == "__main__":
    main()
