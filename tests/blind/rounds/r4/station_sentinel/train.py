"""Next-day temperature from one day of station readings. usage: train.py FOLDER"""
import sys
from pathlib import Path
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

FOLDER = Path(__file__).parent / sys.argv[1]


def load():
    with open(FOLDER / "stations.csv") as f:
        names = f.readline().strip().split(",")
        data = np.loadtxt(f, delimiter=",", dtype=np.float32)
    print(f"{len(data)} station-days, columns {names}")
    x, y = torch.from_numpy(data[:, 1:-1]), torch.from_numpy(data[:, -1])
    return x, y


def batches(x, y, size):
    for idx in torch.randperm(len(x)).split(size):
        yield x[idx], y[idx]


class Net(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.fc1, self.fc2, self.out = nn.Linear(d, 40), nn.Linear(40, 20), nn.Linear(20, 1)

    def forward(self, x):
        return self.out(F.relu(self.fc2(F.relu(self.fc1(x))))).squeeze(1)


def main():
    torch.manual_seed(2)
    x, y = load()
    cut = int(0.8 * len(x))
    mean, std = x[:cut].mean(0), x[:cut].std(0)
    x = (x - mean) / std
    ym, ys = y[:cut].mean(), y[:cut].std()
    xt, yt, xv, yv = x[:cut], (y[:cut] - ym) / ys, x[cut:], y[cut:]
    model = Net(x.size(1))
    opt = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-5)
    for epoch in range(16):
        model.train()
        running = []
        for xb, yb in batches(xt, yt, 32):
            loss = F.mse_loss(model(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            running.append(loss.item())
        model.eval()
        with torch.no_grad():
            mae = (model(xv) * ys + ym - yv).abs().mean().item()
        print(f"epoch {epoch:2d} train mse {np.mean(running):.4f} held-out MAE {mae:.3f} K (climatology {(yv - ym).abs().mean():.3f} K)")


if __name__ == "__main__":
    main()
