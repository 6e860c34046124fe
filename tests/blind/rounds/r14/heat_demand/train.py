"""Heat load forecast from the meters of several sites."""
import csv
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset


class SiteMeters(Dataset):
    def __init__(self, path):
        with open(path, newline="") as f:
            rows = list(csv.DictReader(f))
        self.x = torch.tensor([[float(r[k]) for k in ("temp_out", "wind", "occupancy", "area")] for r in rows])
        self.y = torch.tensor([float(r["load_kw"]) for r in rows])

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def all_sites(folder, part):
    return ConcatDataset([SiteMeters(p) for p in sorted(folder.glob(f"{part}_*.csv"))])


class LoadNet(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.f = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        return 40 * self.f((x - self.mean) / self.std).squeeze(1) + 30


def main(folder):
    torch.manual_seed(0)
    train, test = all_sites(folder, "train"), all_sites(folder, "test")
    x = torch.cat([d.x for d in train.datasets])
    net = LoadNet(x.mean(0), x.std(0))
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    dl = DataLoader(train, batch_size=128, shuffle=True)
    for epoch in range(15):
        losses = []
        for xb, yb in dl:
            loss = nn.functional.huber_loss(net(xb), yb, delta=5.0)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1} loss {np.mean(losses):.3f}")
    with torch.no_grad():
        err = torch.cat([net(xb) - yb for xb, yb in DataLoader(test, batch_size=300)])
    print(f"test RMSE {err.pow(2).mean().sqrt():.2f} kW")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
