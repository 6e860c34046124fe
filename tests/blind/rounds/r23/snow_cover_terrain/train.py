"""Snow / no snow per pixel from terrain patch and weather; trained in the west, validated in the east."""
import sys
import tomllib
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Region:
    def __init__(self, folder):
        terrain = np.load(folder / "terrain.npz")
        self.dem = terrain["dem"]
        self.forest = terrain["forest"].astype(np.float32)
        self.snow = np.load(folder / "snow.npz")["mask"]
        self.weather = np.loadtxt(folder / "weather.csv", delimiter=",", skiprows=1, dtype=np.float32)[:, 1:]
        assert self.snow.shape[1:] == self.dem.shape == self.forest.shape


class Pixels(Dataset):
    def __init__(self, region, columns, count, patch, rng, stats=None):
        r = patch // 2
        rows = rng.integers(r, region.dem.shape[0] - r, count)
        cols = rng.integers(columns[0] + r, columns[1] - r, count)
        days = rng.integers(0, len(region.snow), count)
        height = np.stack([region.dem[i - r:i + r + 1, j - r:j + r + 1] for i, j in zip(rows, cols)])
        relief = height - height[:, r:r + 1, r:r + 1]
        trees = np.stack([region.forest[i - r:i + r + 1, j - r:j + r + 1] for i, j in zip(rows, cols)])
        scalars = np.column_stack([region.weather[days], height[:, r, r]])
        self.stats = stats or (scalars.mean(0), scalars.std(0), relief.std())
        mean, std, relief_std = self.stats
        self.maps = torch.from_numpy(np.stack([relief / relief_std, trees], axis=1))
        self.scalars = torch.from_numpy((scalars - mean) / std)
        self.label = torch.from_numpy(region.snow[days, rows, cols].astype(np.float32))

    def __len__(self):
        return len(self.label)

    def __getitem__(self, k):
        return self.maps[k], self.scalars[k], self.label[k]


class SnowNet(nn.Module):
    def __init__(self, n_scalars):
        super().__init__()
        self.terrain = nn.Sequential(nn.Conv2d(2, 12, 3), nn.ReLU(), nn.Conv2d(12, 16, 3, stride=2), nn.ReLU(),
                                     nn.Flatten(), nn.LazyLinear(24), nn.ReLU())
        self.mix = nn.Sequential(nn.Linear(24 + n_scalars, 48), nn.ReLU(), nn.Linear(48, 1))

    def forward(self, maps, scalars):
        return self.mix(torch.cat([self.terrain(maps), scalars], dim=1)).squeeze(1)


def validate(net, loader):
    net.eval()
    right = both = either = n = 0
    with torch.no_grad():
        for maps, scalars, label in loader:
            p, t = net(maps, scalars) > 0, label > 0.5
            right += (p == t).sum().item()
            both += (p & t).sum().item()
            either += (p | t).sum().item()
            n += len(t)
    return right / n, both / either


def main():
    folder = Path(sys.argv[1])
    cfg = tomllib.loads((folder / "config.toml").read_text())
    data, tr = cfg["data"], cfg["train"]
    torch.manual_seed(tr["seed"])
    rng = np.random.default_rng(tr["seed"])
    region = Region(folder)
    width = region.dem.shape[1]
    west = Pixels(region, (0, data["split_column"]), data["train_pixels"], data["patch"], rng)
    east = Pixels(region, (data["split_column"], width), data["valid_pixels"], data["patch"], rng, west.stats)
    train, valid = DataLoader(west, tr["batch"], shuffle=True), DataLoader(east, 500)

    net = SnowNet(west.scalars.shape[1])
    net(*[v[:2] for v in (west.maps, west.scalars)])
    opt = torch.optim.AdamW(net.parameters(), lr=tr["lr"], weight_decay=1e-2)
    for epoch in range(tr["epochs"]):
        net.train()
        total = 0.0
        for maps, scalars, label in train:
            loss = nn.functional.binary_cross_entropy_with_logits(net(maps, scalars), label)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(label)
        acc, iou = validate(net, valid)
        print(f"epoch {epoch + 1:2d}  loss {total / len(west):.4f}  east: accuracy {acc:.3f}  snow IoU {iou:.3f}")


if __name__ == "__main__":
    main()
