"""Glaze pattern of ceramic tiles."""
import argparse
import json
import os
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import Dataset, DataLoader


class Tiles(Dataset):
    def __init__(self, folder, part):
        z = np.load(os.path.join(folder, part + ".npz"))
        with open(os.path.join(folder, "stats.json")) as f:
            st = json.load(f)
        mean = torch.tensor(st["mean"]).view(3, 1, 1)
        std = torch.tensor(st["std"]).view(3, 1, 1)
        self.img = (torch.from_numpy(z["images"]) - mean) / std
        self.kind = torch.from_numpy(z["kind"])

    def __len__(self):
        return len(self.kind)

    def __getitem__(self, i):
        return self.img[i], self.kind[i]


def make_net():
    return nn.Sequential(
        nn.Conv2d(3, 10, 3), nn.ReLU(),
        nn.Conv2d(10, 16, 3), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(16, 4),
    )


def accuracy(net, loader):
    net.eval()
    ok = sum((net(x).argmax(1) == y).sum().item() for x, y in loader)
    net.train()
    return ok / len(loader.dataset)


def main(a):
    torch.manual_seed(16)
    train = DataLoader(Tiles(a.folder, "train"), batch_size=24, shuffle=True)
    test = DataLoader(Tiles(a.folder, "test"), batch_size=120)
    net = make_net()
    opt = torch.optim.Adam(net.parameters(), lr=a.lr)
    lossf = nn.CrossEntropyLoss()
    for ep in range(a.epochs):
        for x, y in train:
            opt.zero_grad()
            loss = lossf(net(x), y)
            loss.backward()
            opt.step()
        with torch.no_grad():
            print(f"epoch {ep + 1} loss {loss.item():.3f} test accuracy {accuracy(net, test):.3f}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("folder")
    p.add_argument("--lr", type=float, default=1e-2)
    p.add_argument("--epochs", type=int, default=8)
    main(p.parse_args())
