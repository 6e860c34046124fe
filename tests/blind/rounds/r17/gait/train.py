import json
import pathlib
import sys

import numpy as np
import torch
from torch import nn


def load(folder, part, stats):
    acc = np.load(folder / f"{part}_acc.npy")
    gait = np.load(folder / f"{part}_gait.npy")
    mean = np.array(stats["mean"], dtype=np.float32)[None, :, None]
    std = np.array(stats["std"], dtype=np.float32)[None, :, None]
    return torch.from_numpy((acc - mean) / std), torch.from_numpy(gait)


def build(n_classes):
    return nn.Sequential(
        nn.Conv1d(3, 24, 7, stride=2, padding=3), nn.ReLU(),
        nn.Conv1d(24, 32, 5, stride=2, padding=2), nn.ReLU(),
        nn.Conv1d(32, 32, 5, stride=2, padding=2), nn.ReLU(),
        nn.AdaptiveMaxPool1d(1), nn.Flatten(),
        nn.Linear(32, n_classes),
    )


def evaluate(net, x, y):
    net.eval()
    with torch.no_grad():
        return (net(x).argmax(1) == y).float().mean().item()


def main(folder):
    torch.manual_seed(8)
    folder = pathlib.Path(folder)
    stats = json.loads((folder / "stats.json").read_text())
    names = (folder / "gaits.txt").read_text().split()
    x, y = load(folder, "train", stats)
    xt, yt = load(folder, "test", stats)
    net = build(len(names))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    crit = nn.CrossEntropyLoss()
    for epoch in range(12):
        net.train()
        order = torch.randperm(len(x))
        tot = 0.0
        for idx in order.split(50):
            loss = crit(net(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item() * len(idx)
        if epoch % 3 == 2:
            print(f"[{epoch + 1}] loss {tot / len(x):.4f}")
    print(f"accuracy on unseen subjects: {evaluate(net, xt, yt):.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
