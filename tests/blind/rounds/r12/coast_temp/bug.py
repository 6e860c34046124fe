"""Six-hour-ahead temperature from 48 h of station records (dilated convolutions)."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

COLS = ["temp", "dew", "pres", "pres_west", "pres_buoy", "wind_u", "wind_v", "rad"]


def simulate(hours, rng):
    t = np.arange(hours)
    day = np.sin(2 * np.pi * (t - 9) / 24)
    season = np.sin(2 * np.pi * t / (24 * 120))
    front = np.zeros(hours + 12)
    wind = np.zeros((hours, 2))
    for i in range(1, hours + 12):
        front[i] = 0.93 * front[i - 1] + rng.normal(0, 0.8)
    west, buoy, front = front[4:hours + 4], front[8:hours + 8], front[:hours]
    for i in range(1, hours):
        wind[i] = 0.9 * wind[i - 1] + 0.1 * (front[i] - front[i - 1]) + rng.normal(0, 0.5, 2)
    cloud = 1 / (1 + np.exp(-0.6 * front))
    rad = np.clip(day, 0, None) * (1 - 0.7 * cloud) * 600
    temp = np.zeros(hours)
    for i in range(1, hours):
        temp[i] = 0.8 * temp[i - 1] + 0.004 * rad[i - 1] + 0.6 * front[i] + 0.3 * season[i]
    temp = temp + 9 + rng.normal(0, 0.5, hours)
    pres, pres_west, pres_buoy = [1012 - 1.1 * f + rng.normal(0, 1.0, hours) for f in (front, west, buoy)]
    dew = temp - 3 + 0.5 * front + rng.normal(0, 0.4, hours)
    return np.stack([temp, dew, pres, pres_west, pres_buoy, wind[:, 0], wind[:, 1], rad], 1).astype(np.float32)


def windows(series, mean, std, past, lead):
    z = (series - mean) / std
    n = len(z) - past - lead
    x = np.stack([z[i:i + past] for i in range(n)])
    y = z[past + lead - 1:past + lead - 1 + n, 0]
    return torch.from_numpy(x), torch.from_numpy(y.copy())


class TempNet(nn.Module):
    def __init__(self, n_feat, width=24):
        super().__init__()
        self.c1 = nn.Conv1d(n_feat, width, 3, padding=1)
        self.c2 = nn.Conv1d(width, width, 3, padding=2, dilation=2)
        self.c3 = nn.Conv1d(width, width, 3, padding=4, dilation=4)
        self.out = nn.Sequential(nn.Linear(2 * width, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        b, t, f = x.shape
        h = x.reshape(b, f, t)
        h = F.relu(self.c1(h))
        h = h + F.relu(self.c2(h))
        h = h + F.relu(self.c3(h))
        h = torch.cat([h[:, :, -1], h.mean(2)], 1)
        return self.out(h).squeeze(1)


def evaluate(model, loader, scale):
    model.eval()
    err = []
    with torch.no_grad():
        for x, y in loader:
            err.append((model(x) - y).abs())
    model.train()
    return torch.cat(err).mean().item() * scale


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--past", type=int, default=48)
    ap.add_argument("--lead", type=int, default=6)
    ap.add_argument("--seed", type=int, default=3)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    raw = simulate(5200, np.random.default_rng(args.seed))
    a, b = 3600, 4300
    mean, std = raw[:a].mean(0), raw[:a].std(0)
    parts = [windows(s, mean, std, args.past, args.lead) for s in (raw[:a], raw[a:b], raw[b:])]
    train = DataLoader(TensorDataset(*parts[0]), batch_size=64, shuffle=True)
    val = DataLoader(TensorDataset(*parts[1]), batch_size=256)
    test = DataLoader(TensorDataset(*parts[2]), batch_size=256)
    model = TempNet(len(COLS))
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    best, keep = float("inf"), None
    for epoch in range(args.epochs):
        tot = 0.0
        for x, y in train:
            loss = F.smooth_l1_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item() * len(y)
        sched.step()
        v = evaluate(model, val, std[0])
        if v < best:
            best, keep = v, {k: p.clone() for k, p in model.state_dict().items()}
        print(f"epoch {epoch} loss {tot / len(parts[0][1]):.4f} val mae {v:.3f} C")
    model.load_state_dict(keep)
    print(f"test mae {evaluate(model, test, std[0]):.3f}")


if __name__ == "__main__":
    main()
