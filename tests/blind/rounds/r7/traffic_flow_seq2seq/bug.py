"""15-minute loop-detector volumes: GRU forecaster, three steps ahead."""
import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SLOTS = 96


def simulate_volumes(n_det, days, seed):
    rng = np.random.default_rng(seed)
    slot = np.arange(SLOTS * days) % SLOTS
    morning = np.exp(-0.5 * ((slot - 32) / 6.0) ** 2)
    evening = np.exp(-0.5 * ((slot - 70) / 8.0) ** 2)
    out = np.zeros((n_det, SLOTS * days), dtype=np.float32)
    for d in range(n_det):
        a, b, base = rng.uniform(120, 260), rng.uniform(120, 260), rng.uniform(20, 60)
        level = base + a * morning + b * evening
        shock = 0.0
        for t in range(level.size):
            shock = 0.75 * shock + rng.normal(0, 12)
            out[d, t] = max(0.0, level[t] + shock)
    return out


def cut_windows(z, length, horizon):
    history, future = [], []
    for row in z:
        for start in range(0, row.size - length - horizon, 3):
            end = start + length
            history.append(row[start:end])
            future.append(row[end - 1:end - 1 + horizon])
    history = torch.from_numpy(np.stack(history)).unsqueeze(-1)
    return history, torch.from_numpy(np.stack(future))


class Forecaster(nn.Module):
    def __init__(self, hidden, horizon):
        super().__init__()
        self.gru = nn.GRU(1, hidden, batch_first=True)
        self.out = nn.Linear(hidden, horizon)

    def forward(self, x):
        h, _ = self.gru(x)
        return self.out(h[:, -1])


def mae_per_step(model, loader, scale):
    model.eval()
    total, n = 0.0, 0
    with torch.no_grad():
        for x, y in loader:
            total = total + (model(x) - y).abs().sum(0) * scale
            n += len(x)
    return (total / n).tolist()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=10)
    ap.add_argument("--length", type=int, default=16)
    ap.add_argument("--horizon", type=int, default=3)
    ap.add_argument("--lr", type=float, default=5e-3)
    args = ap.parse_args()
    torch.manual_seed(11)

    volumes = simulate_volumes(n_det=8, days=14, seed=3)
    cut = SLOTS * 10
    train, val = volumes[:, :cut], volumes[:, cut:]
    mean, std = train.mean(), train.std()
    train_set = TensorDataset(*cut_windows((train - mean) / std, args.length, args.horizon))
    val_set = TensorDataset(*cut_windows((val - mean) / std, args.length, args.horizon))
    train_loader = DataLoader(train_set, batch_size=64, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=256)

    model = Forecaster(32, args.horizon)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        model.train()
        running = 0.0
        for x, y in train_loader:
            loss = nn.functional.mse_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            running += loss.item() * len(x)
        steps = mae_per_step(model, val_loader, float(std))
        print(f"epoch {epoch} train mse {running / len(train_set):.4f} "
              f"val MAE (veh/15min) " + " ".join(f"{s:.2f}" for s in steps))


if __name__ == "__main__":
    main()
