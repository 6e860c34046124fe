"""Household type from smart-meter days; spectral features are cached in FOLDER/features.npy."""
import sys
from pathlib import Path
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

FOLDER = Path(sys.argv[1])
TYPES = ("single", "family", "office")


def spectral_features(days):
    """log power of the first harmonics and level of the day"""
    power = np.abs(np.fft.rfft(days, axis=1))[:, 1:9]
    return np.column_stack([np.log1p(power), days.mean(1), days.max(1)]).astype(np.float32)


def get_features(days):
    cache = FOLDER / "features.npy"
    if cache.exists():
        features = np.load(cache)
        if len(features) == len(days):
            print(f"using cached features {features.shape}")
            return features
    return spectral_features(days)


def main(epochs=25, batch=64, lr=4e-3):
    torch.manual_seed(20)
    archive = np.load(FOLDER / "meters.npz")
    features = get_features(archive["kwh"].astype(np.float32) / 100)
    x, y = torch.tensor(features), torch.tensor(archive["household"].astype(np.int64))
    perm = torch.randperm(len(x))
    val, train = perm[:len(x) // 4], perm[len(x) // 4:]
    x = (x - x[train].mean(0)) / x[train].std(0)
    model = nn.Sequential(nn.Linear(x.shape[1], 32), nn.ReLU(), nn.Linear(32, len(TYPES)))
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for idx in train[torch.randperm(len(train))].split(batch):
            loss = F.cross_entropy(model(x[idx]), y[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
        model.eval()
        with torch.no_grad():
            pred = model(x[val]).argmax(1)
        if epoch % 6 == 0:
            print(f"epoch {epoch:2d} loss {total / len(train):.3f} val acc {(pred == y[val]).float().mean():.3f}")
    majority = torch.bincount(y[val]).max().item() / len(val)
    print(f"final val acc {(pred == y[val]).float().mean():.3f} (majority {majority:.3f})")


if __name__ == "__main__":
    main()
