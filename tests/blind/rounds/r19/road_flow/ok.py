"""Next-hour traffic flow at loop detectors from the past two hours (GRU)."""
import argparse
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def simulate_flow(n_sensors, n_steps, seed):
    """5-minute flow at a chain of detectors; congestion travels upstream."""
    rng = np.random.default_rng(seed)
    t = np.arange(n_steps)
    tod = (t % 288) / 288 * 24
    demand = 20 + 45 * np.exp(-0.5 * ((tod - 8) / 1.4) ** 2) + 50 * np.exp(-0.5 * ((tod - 17.3) / 1.8) ** 2)
    demand *= np.repeat(rng.uniform(0.8, 1.2, n_steps // 288 + 1), 288)[:n_steps]
    capacity = rng.uniform(0.8, 1.2, n_sensors)
    flow = np.zeros((n_steps, n_sensors))
    for s in range(n_sensors):
        flow[:, s] = np.roll(demand, 2 * s) * capacity[s]
    for _ in range(n_steps // 150):
        start, s, length = rng.integers(0, n_steps - 60), rng.integers(0, n_sensors), rng.integers(10, 30)
        for k in range(s, -1, -1):
            lag = 2 * (s - k)
            flow[start + lag:start + lag + length, k] *= 0.45 + 0.06 * (s - k)
    return (flow + rng.normal(0, 2.0, flow.shape)).astype(np.float32)


class WindowDataset(Dataset):
    def __init__(self, series, history, horizon, stride):
        self.series = torch.from_numpy(series)
        self.history, self.horizon = history, horizon
        self.starts = list(range(0, len(series) - history - horizon, stride))

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, i):
        s = self.starts[i]
        return self.series[s:s + self.history], self.series[s + self.history + self.horizon - 1]


class FlowGRU(nn.Module):
    def __init__(self, n_sensors, hidden):
        super().__init__()
        self.rnn = nn.GRU(n_sensors, hidden, batch_first=True)
        self.out = nn.Linear(hidden, n_sensors)

    def forward(self, x):
        h, _ = self.rnn(x)
        return self.out(h[:, -1])


def evaluate(model, loader, scale):
    model.eval()
    abs_err, naive, n = 0.0, 0.0, 0
    with torch.no_grad():
        for x, y in loader:
            abs_err += (model(x) - y).abs().sum().item()
            naive += (x[:, -1] - y).abs().sum().item()
            n += y.numel()
    return abs_err / n * scale, naive / n * scale


def main(args):
    torch.manual_seed(args.seed)
    flow = simulate_flow(args.sensors, 288 * 24, args.seed)
    cut = 288 * 19
    mean, std = flow[:cut].mean(), flow[:cut].std()
    flow = (flow - mean) / std
    train_set = WindowDataset(flow[:cut], args.history, args.horizon, 2)
    test_set = WindowDataset(flow[cut:], args.history, args.horizon, 1)
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(test_set, batch_size=256)

    model = FlowGRU(args.sensors, args.hidden)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4, gamma=0.5)
    criterion = nn.L1Loss()
    for epoch in range(1, args.epochs + 1):
        tic = time.time()
        model.train()
        total = 0.0
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            total += loss.item()
        scheduler.step()
        mae, _ = evaluate(model, test_loader, std)
        print(f"epoch {epoch:02d} | train {total / len(train_loader):.4f} | test MAE {mae:.3f} veh/5min"
              f" | {time.time() - tic:.1f}s", flush=True)
    mae, naive = evaluate(model, test_loader, std)
    print(f"MAE {mae:.3f}  (persistence {naive:.3f})")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--sensors", type=int, default=12)
    p.add_argument("--history", type=int, default=24)
    p.add_argument("--horizon", type=int, default=12)
    p.add_argument("--hidden", type=int, default=64)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--epochs", type=int, default=12)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=3)
    main(p.parse_args())
