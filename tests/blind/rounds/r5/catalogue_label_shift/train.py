"""Classify catalogue photos; the folder holds catalogue.json and one label per image in labels.txt."""
import gzip
import json
import pathlib
import sys
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset


class Catalogue(Dataset):
    def __init__(self, folder):
        info = json.loads((folder / "catalogue.json").read_text())
        n = info["count"]
        with gzip.open(info["images"]) as f:
            raw = np.frombuffer(f.read(16 + n * 784), np.uint8, offset=16)
        self.images = torch.tensor(raw.reshape(n, 14, 2, 14, 2).mean((2, 4)) / 255, dtype=torch.float32)[:, None]
        names = (folder / "labels.txt").read_text().split()
        assert len(names) == n
        self.labels = torch.tensor([info["classes"].index(name) for name in names])
        self.n_valid = info["valid"]

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return (self.images[i] - 0.286) / 0.32, self.labels[i]


def accuracy(model, loader):
    model.eval()
    with torch.no_grad():
        hits = [(model(x).argmax(1) == y).float() for x, y in loader]
    return torch.cat(hits).mean().item()


def main(folder):
    torch.manual_seed(13)
    data = Catalogue(folder)
    order = torch.randperm(len(data)).tolist()
    train = Subset(data, order[data.n_valid:])
    valid = DataLoader(Subset(data, order[: data.n_valid]), batch_size=200)
    loader = DataLoader(train, batch_size=50, shuffle=True)
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 49, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(4):
        model.train()
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(loader):.4f} valid acc {accuracy(model, valid):.3f}")
    print(f"valid accuracy {accuracy(model, valid):.3f}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
