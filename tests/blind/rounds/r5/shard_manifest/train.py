"""Stream customer-segment vectors from shards: train.py FOLDER (manifest.json names the shards)."""
import json
import pathlib
import random
import sys
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

BUFFER = 400


class ShardStream(IterableDataset):
    def __init__(self, folder, names, shuffle, seed=0):
        self.paths = [folder / n for n in names]
        self.shuffle, self.rng = shuffle, random.Random(seed)

    def rows(self):
        paths = list(self.paths)
        if self.shuffle:
            self.rng.shuffle(paths)
        for path in paths:
            with np.load(path) as shard:
                x, y = shard["x"].astype(np.float32), shard["y"].astype(np.int64)
            for i in range(len(y)):
                yield x[i], y[i]

    def __iter__(self):
        if not self.shuffle:
            yield from self.rows()
            return
        pool = []
        for row in self.rows():
            if len(pool) < BUFFER:
                pool.append(row)
                continue
            j = self.rng.randrange(BUFFER)
            yield pool[j]
            pool[j] = row
        self.rng.shuffle(pool)
        yield from pool


def accuracy(model, loader):
    model.eval()
    with torch.no_grad():
        return torch.cat([(model(x).argmax(1) == y).float() for x, y in loader]).mean().item()


def main(folder):
    torch.manual_seed(43)
    manifest = json.loads((folder / "manifest.json").read_text())
    train = DataLoader(ShardStream(folder, manifest["train"], True), batch_size=50)
    valid = DataLoader(ShardStream(folder, manifest["valid"], False), batch_size=200)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, manifest["classes"]))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(5):
        model.train()
        losses = []
        for x, y in train:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch} steps {len(losses)} loss {np.mean(losses):.4f} valid acc {accuracy(model, valid):.3f}")
    print(f"valid accuracy {accuracy(model, valid):.3f}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
