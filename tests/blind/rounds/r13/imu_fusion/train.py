"""Activity from accelerometer and gyroscope, joined on time. usage: train.py FOLDER"""
import os
import sys
import numpy as np
import torch
from torch import nn


def csv(*parts):
    return np.loadtxt(os.path.join(*parts), delimiter=",")


def asof_join(left, right):
    """for each time on the left the last reading on the right that is not later"""
    pos = np.searchsorted(right[:, 0], left[:, 0], side="right") - 1
    return right[np.clip(pos, 0, len(right) - 1), 1:]


def build(folder, part):
    acc, gyr = csv(folder, part, "accel.csv"), csv(folder, part, "gyro.csv")
    x = np.concatenate([acc[:, 1:], asof_join(acc, gyr)], 1)
    y = csv(folder, part, "label.csv")[:, 1]
    return torch.from_numpy(x).float(), torch.from_numpy(y).long()


class Fusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Sequential(nn.Linear(3, 16), nn.ReLU())
        self.g = nn.Sequential(nn.Linear(3, 16), nn.ReLU())
        self.out = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, x):
        return self.out(torch.cat([self.a(x[:, :3]), self.g(x[:, 3:])], 1))


def main(folder):
    torch.manual_seed(17)
    x, y = build(folder, "session")
    xf, yf = build(folder, "field")
    mu, sd = x.mean(0), x.std(0)
    x, xf = (x - mu) / sd, (xf - mu) / sd
    model = Fusion()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(20):
        model.train()
        tot = 0.0
        for idx in torch.randperm(len(x)).split(64):
            opt.zero_grad()
            loss = loss_fn(model(x[idx]), y[idx])
            loss.backward()
            opt.step()
            tot += loss.item() * len(idx)
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1} loss {tot / len(x):.4f}")
    model.eval()
    with torch.no_grad():
        print("final field accuracy", (model(xf).argmax(1) == yf).float().mean().item())


main(sys.argv[1])
