"""Wall thickness at the waist of a church bell (mm) from the band levels of a single strike,
for surveys of bells that cannot be taken down. Several kernel reaches are tried; the network and the
epoch with the lowest validation error are kept."""
import copy
import csv
import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS, BATCH, LR, SEED = 20, 48, 2e-2, 13


class Strikes(Dataset):
    def __init__(self, folder, part):
        with open(folder / f"{part}_strikes.csv", newline="") as f:
            rows = list(csv.DictReader(f))
        levels = np.load(folder / f"{part}_levels.npy")
        assert len(levels) == len(rows)
        self.x = torch.from_numpy(levels)
        self.waist = torch.tensor([float(r["waist_mm"]) for r in rows])

    def __len__(self):
        return len(self.waist)

    def __getitem__(self, i):
        return self.x[i], self.waist[i]


class BellNet(nn.Module):
    """Scaling of inputs and output is kept inside, so that the field laptop needs the weights only."""

    def __init__(self, data, reach, waves=512):
        super().__init__()
        self.register_buffer("shift", data.x.mean(0))
        self.register_buffer("scale", data.x.std(0))
        self.register_buffer("mean", data.waist.mean())
        self.register_buffer("std", data.waist.std())
        self.register_buffer("freq", torch.randn(data.x.size(1), waves) / reach)
        self.register_buffer("offset", 2 * torch.pi * torch.rand(waves))
        self.norm = (2.0 / waves) ** 0.5
        self.out = nn.Linear(waves + data.x.size(1), 1)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, x):
        z = (x - self.shift) / self.scale
        waves = self.norm * torch.cos(z @ self.freq + self.offset)
        return self.out(torch.cat([waves, 0.1 * z], dim=1)).squeeze(-1) * self.std + self.mean


@torch.no_grad()
def error(net, data):
    net.eval()
    return (net(data.x) - data.waist).abs().mean().item()


def train_one(train_set, val_set, reach):
    torch.manual_seed(SEED)
    net = BellNet(train_set, reach)
    opt = torch.optim.AdamW(net.parameters(), lr=LR, weight_decay=0.05)
    loader = DataLoader(train_set, batch_size=BATCH, shuffle=True)
    best, best_epoch, weights = float("inf"), 0, None
    for epoch in range(1, EPOCHS + 1):
        net.train()
        total = 0.0
        for x, waist in loader:
            loss = ((net(x) - waist) / net.std).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(waist)
        mae = error(net, val_set)
        if mae < best:
            best, best_epoch, weights = mae, epoch, copy.deepcopy(net.state_dict())
        if epoch % 10 == 0:
            print(f"  reach {reach:4.1f}  epoch {epoch:2d}  loss {total / len(train_set):.3f}  val MAE {mae:.2f} mm")
    net.load_state_dict(weights)
    return best, best_epoch, net


def main(folder):
    train_set, val_set = Strikes(folder, "training"), Strikes(folder, "validation")
    print(f"{len(train_set)} strikes for training, {len(val_set)} for validation")
    grid = json.loads((folder / "grid.json").read_text())
    results = [train_one(train_set, val_set, **choice) for choice in grid]
    pick = min(range(len(grid)), key=lambda i: results[i][0])
    best, epoch, net = results[pick]
    print(f"kept {grid[pick]} at epoch {epoch}: val MAE {best:.2f} mm")
    print(f"always the mean: {(val_set.waist - train_set.waist.mean()).abs().mean():.2f} mm")
    return net


if __name__ == "__main__":
    main(Path(sys.argv[1]))
