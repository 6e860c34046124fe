"""Land-cover classification of 8x8 four-band tiles (crop, pasture, bare soil, water, orchard)."""
import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

CLASSES = ["crop", "pasture", "bare soil", "water", "orchard"]
N_TRAIN, EPOCHS, BATCH, LR, SEED = 600, 12, 50, 3e-3, 6


def load_tiles(folder):
    with np.load(folder / "tiles.npz") as z:
        tiles = z["tiles"].astype(np.float32) / 255.0
        labels = z["labels"]
    stats = json.loads((folder / "band_stats.json").read_text())
    mean = np.array(stats["mean"], np.float32)[None, :, None, None]
    std = np.array(stats["std"], np.float32)[None, :, None, None]
    return torch.from_numpy((tiles - mean) / std), torch.from_numpy(labels)


class TileNet(nn.Module):
    def __init__(self, bands=4, width=16, n_classes=len(CLASSES)):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(bands, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.classifier = nn.Linear(width, n_classes)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def train_epoch(model, opt, x, y):
    model.train()
    total = 0.0
    for idx in torch.randperm(len(x)).split(BATCH):
        loss = nn.functional.cross_entropy(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(idx)
    return total / len(x)


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    pred = model(x).argmax(1)
    recall = [(pred[y == k] == k).float().mean().item() for k in range(len(CLASSES))]
    return (pred == y).float().mean().item(), recall


def main():
    folder = Path(sys.argv[1])
    torch.manual_seed(SEED)
    x, y = load_tiles(folder)
    train_x, train_y, valid_x, valid_y = x[:N_TRAIN], y[:N_TRAIN], x[N_TRAIN:], y[N_TRAIN:]
    print(f"{len(train_x)} train tiles, {len(valid_x)} valid tiles")
    model = TileNet()
    opt = torch.optim.Adam(model.parameters(), lr=LR)
    for epoch in range(1, EPOCHS + 1):
        loss = train_epoch(model, opt, train_x, train_y)
        acc, recall = evaluate(model, valid_x, valid_y)
        print(f"epoch {epoch:2d} loss {loss:.4f} valid acc {acc:.3f}")
    for name, r in zip(CLASSES, recall):
        print(f"  recall {name:10s} {r:.2f}")


if __name__ == "__main__":
    main()
