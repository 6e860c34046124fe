"""Digits from shards listed in FOLDER/manifest.json (14x14 images, packed as npz)."""
import json
import sys
from pathlib import Path
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset

FOLDER = Path(sys.argv[1])


def shard(name):
    with np.load(FOLDER / name) as z:
        x = torch.tensor(z["image"].astype(np.float32) / 15.0).unsqueeze(1)
        y = torch.tensor(z["label"].astype(np.int64))
    return TensorDataset((x - 0.13) / 0.3, y)


class ShardNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 16, 3, stride=2, padding=1)
        self.fc1 = nn.Linear(16 * 49, 64)
        self.drop = nn.Dropout(0.2)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        h = F.relu(self.conv(x)).flatten(1)
        return self.fc2(self.drop(F.relu(self.fc1(h))))


def accuracy(model, loader):
    model.eval()
    hits = count = 0
    with torch.no_grad():
        for x, y in loader:
            hits += (model(x).argmax(1) == y).sum().item()
            count += len(y)
    return hits / count


def main(epochs=10):
    manifest = json.loads((FOLDER / "manifest.json").read_text())
    torch.manual_seed(manifest["seed"])
    train = ConcatDataset([shard(name) for name in manifest["train"]])
    val = shard(manifest["val"])
    print(f"{len(manifest['train'])} shards, {len(train)} training images, {len(val)} for validation")
    loader = DataLoader(train, batch_size=50, shuffle=True)
    val_loader = DataLoader(val, batch_size=200)
    model = ShardNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(y)
        if epoch % 3 == 0:
            print(f"epoch {epoch} loss {total / len(train):.4f} val acc {accuracy(model, val_loader):.3f}")


if __name__ == "__main__":
    main()
