"""Occupancy of car parks two hours ahead, from cached features."""
import csv
import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Parking(Dataset):
    def __init__(self, root, split):
        with open(root / f"{split}.csv") as f:
            rows = list(csv.DictReader(f))
        self.lot = [r["lot"] for r in rows]
        self.y = torch.tensor([float(r["occupancy_2h"]) for r in rows])
        self.x = torch.from_numpy(np.load(root / "cache" / f"{split}_features.npy"))
        assert len(self.x) == len(self.y)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Net(torch.nn.Module):
    def __init__(self, d, h=48):
        super().__init__()
        self.a = torch.nn.Linear(d, h)
        self.b = torch.nn.Linear(h, h)
        self.c = torch.nn.Linear(h, 1)

    def forward(self, x):
        h = torch.nn.functional.silu(self.a(x))
        h = h + torch.nn.functional.silu(self.b(h))
        return torch.sigmoid(self.c(h)).squeeze(-1)


def main():
    root = Path(sys.argv[1])
    torch.manual_seed(17)
    train, test = Parking(root, "train"), Parking(root, "test")
    cap = json.loads((root / "lots.json").read_text())["capacity"]
    net = Net(train.x.shape[1])
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    loader = DataLoader(train, batch_size=60, shuffle=True)
    for ep in range(8):
        tot = 0.0
        for x, y in loader:
            loss = torch.nn.functional.mse_loss(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item()
        print(f"epoch {ep} mse {tot / len(loader):.5f}")
    with torch.no_grad():
        err = (net(test.x) - test.y).abs()
    cars = err * torch.tensor([float(cap[l]) for l in test.lot])
    print(f"test MAE {err.mean():.4f} of capacity, {cars.mean():.1f} cars")


main()
