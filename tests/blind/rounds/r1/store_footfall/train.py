"""Daily footfall per store from calendar and weather features (two files, same row order)."""
import sys
from pathlib import Path
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F


def read_inputs(folder):
    x = np.loadtxt(folder / "features.csv", delimiter=",", skiprows=1, dtype=np.float32)
    y = np.loadtxt(folder / "footfall.csv", delimiter=",", skiprows=1, usecols=1, dtype=np.float32)
    assert len(x) == len(y), (len(x), len(y))
    return torch.from_numpy(x), torch.from_numpy(y)


class FootfallNet(nn.Module):
    def __init__(self, n_in, width=48):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n_in, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, x):
        return self.layers(x).squeeze(-1)


def train_epoch(model, optimizer, x, y, batch_size=64):
    model.train()
    total = 0.0
    for idx in torch.randperm(len(x)).split(batch_size):
        loss = F.mse_loss(model(x[idx]), y[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(idx)
    return total / len(x)


@torch.no_grad()
def r2(model, x, y):
    model.eval()
    residual = ((model(x) - y) ** 2).mean()
    return (1 - residual / ((y - y.mean()) ** 2).mean()).item()


def main():
    torch.manual_seed(1)
    x, y = read_inputs(Path(sys.argv[1]))
    perm = torch.randperm(len(x))
    n_val = len(x) // 5
    val, train = perm[:n_val], perm[n_val:]
    mean, std = x[train].mean(0), x[train].std(0)
    x = (x - mean) / std
    y_mean, y_std = y[train].mean(), y[train].std()
    y = (y - y_mean) / y_std
    model = FootfallNet(x.shape[1])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    for epoch in range(20):
        loss = train_epoch(model, optimizer, x[train], y[train])
        if epoch % 4 == 3:
            print(f"epoch {epoch:2d} train mse {loss:.4f} val R2 {r2(model, x[val], y[val]):.3f}")
    with torch.no_grad():
        mae = (model(x[val]) - y[val]).abs().mean() * y_std
    print(f"val MAE {mae:.1f} visitors (std of target {y_std:.1f})")


if __name__ == "__main__":
    main()
