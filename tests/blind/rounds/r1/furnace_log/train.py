"""Furnace temperature, 6 minutes ahead, from the plant historian's CSV."""
import sys
from pathlib import Path
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

CONTEXT, AHEAD, EPOCHS, BATCH = 20, 6, 25, 64


def history(path):
    return np.loadtxt(path, delimiter=",", skiprows=1, usecols=1, dtype=np.float32)


def samples(values):
    n = len(values) - CONTEXT - AHEAD + 1
    x = np.stack([values[i:i + CONTEXT] for i in range(n)])
    y = np.array([values[i + CONTEXT + AHEAD - 1] for i in range(n)])
    return torch.tensor(x), torch.tensor(y)


def main(folder):
    torch.manual_seed(7)
    log = history(folder / "historian.csv")
    cut = int(0.8 * len(log))
    mean, std = log[:cut].mean(), log[:cut].std()
    x_train, y_train = samples((log[:cut] - mean) / std)
    x_val, y_val = samples((log[cut:] - mean) / std)
    x_live, y_live = samples((history(folder / "live_stream.csv") - mean) / std)
    model = nn.Sequential(nn.Linear(CONTEXT, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    @torch.no_grad()
    def mae(x, y):
        model.eval()
        return (model(x).squeeze(1) - y).abs().mean().item() * std

    for epoch in range(EPOCHS):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x_train)).split(BATCH):
            loss = F.smooth_l1_loss(model(x_train[idx]).squeeze(1), y_train[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
        if epoch % 6 == 5:
            print(f"epoch {epoch:2d} train {total / len(x_train):.4f} val MAE {mae(x_val, y_val):.2f} K")
    naive = (x_live[:, -1] - y_live).abs().mean().item() * std
    print(f"live stream MAE {mae(x_live, y_live):.2f} K, persistence {naive:.2f} K")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
