"""Hourly load forecaster for small substations, run in short preemptible allocations."""
import argparse
import os
import tempfile

import numpy as np
import torch
from torch import nn


def make_feeders(n_feeders, hours, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)
    rows = []
    for k in range(n_feeders):
        kind = k * 4 // n_feeders
        phase = [0.0, 1.6, 3.1, 4.7][kind]
        temp = 12 + 8 * np.sin(2 * np.pi * t / 24 - 2) + rng.normal(0, 1.5, hours)
        day = np.sin(2 * np.pi * t / 24 + phase + rng.normal(0, 0.1))
        half = np.cos(4 * np.pi * t / 24 + 2 * phase)
        slope = [0.25, -0.25, 0.1, -0.1][kind]
        load = 40 + 9 * day + 5 * half + slope * temp + rng.normal(0, 1.0, hours)
        rows.append(np.stack([load, temp], axis=1))
    return np.stack(rows).astype(np.float32)


def windows(series, length, stride):
    xs, ys = [], []
    for s in series:
        for a in range(0, len(s) - length, stride):
            xs.append(s[a:a + length])
            ys.append(s[a + length, 0])
    return torch.tensor(np.stack(xs)), torch.tensor(np.array(ys))


class LoadGRU(nn.Module):
    def __init__(self, n_in=2, hidden=32):
        super().__init__()
        self.gru = nn.GRU(n_in, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, x):
        out, _ = self.gru(x)
        return self.head(out[:, -1]).squeeze(-1)


def save(path, model, opt, epoch, cursor, file_order):
    torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "epoch": epoch,
                "cursor": cursor, "order": file_order}, path)


def allocation(args, x, y, path, budget):
    """One stay on the cluster: restore, work for `budget` steps, save."""
    torch.manual_seed(args.seed)
    model = LoadGRU()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    epoch, cursor, order = 0, 0, None
    if os.path.exists(path):
        state = torch.load(path, weights_only=True)
        model.load_state_dict(state["model"])
        opt.load_state_dict(state["opt"])
        epoch, order, cursor = state["epoch"], state["order"], state["cursor"]
    model.train()
    for _ in range(budget):
        if order is None or cursor >= len(order):
            if order is not None:
                epoch, cursor = epoch + 1, 0
            g = torch.Generator().manual_seed(args.seed * 1000 + epoch)
            order = torch.randperm(len(x), generator=g)
        idx = order[cursor:cursor + args.batch]
        loss = nn.functional.smooth_l1_loss(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        cursor += args.batch
    save(path, model, opt, epoch, cursor, order)
    print(f"epoch {epoch}  loss {loss.item():.4f}")
    return model


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=3)
    p.add_argument("--lr", type=float, default=5e-3)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--allocations", type=int, default=30)
    p.add_argument("--budget", type=int, default=10)
    args = p.parse_args()

    data = make_feeders(32, 400, args.seed)
    train, test = data[:, :280], data[:, 280:]
    mean, std = train.mean((0, 1)), train.std((0, 1))
    x, y = windows((train - mean) / std, 12, 6)
    xt, yt = windows((test - mean) / std, 12, 6)
    print(f"{len(x)} training windows, {len(xt)} test windows")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "last.pt")
        for _ in range(args.allocations):
            model = allocation(args, x, y, path, args.budget)
    model.eval()
    with torch.no_grad():
        mae = (model(xt) - yt).abs().mean().item() * float(std[0])
    print(f"test_mae={mae:.4f}")


if __name__ == "__main__":
    main()
