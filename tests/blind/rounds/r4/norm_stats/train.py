"""Softmax-CNN on Fashion-MNIST subsets; preprocessing constants come from FOLDER/stats.json."""
import gzip, os
import json
import sys
from pathlib import Path
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FOLDER = Path(__file__).parent / sys.argv[1]
SRC = Path(os.environ["TRUELOOP_DATA"] + "/fashion-mnist")


class Garments(Dataset):
    def __init__(self, split, n, stats):
        raw = gzip.open(SRC / f"{split}-images-idx3-ubyte.gz").read(16 + 784 * n)
        img = np.frombuffer(raw, np.uint8, offset=16).reshape(n, 1, 28, 28)[:, :, ::2, ::2]
        lab = gzip.open(SRC / f"{split}-labels-idx1-ubyte.gz").read(8 + n)
        self.x = torch.from_numpy(img.astype(np.float32) / 255.0)
        self.y = torch.from_numpy(np.frombuffer(lab, np.uint8, offset=8).astype(np.int64))
        self.mean, self.std = stats["mean"], stats["std"]

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return (self.x[i] - self.mean) / self.std, self.y[i]


def network():
    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(8, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(12 * 9, 10))


def evaluate(model, loader):
    model.eval()
    good = n = 0
    with torch.no_grad():
        for x, y in loader:
            good += (model(x).argmax(1) == y).sum().item()
            n += len(y)
    return good / n


def main():
    torch.manual_seed(0)
    stats = json.loads((FOLDER / "stats.json").read_text())
    train = DataLoader(Garments("train", 2000, stats), batch_size=40, shuffle=True)
    test = DataLoader(Garments("t10k", 1000, stats), batch_size=200)
    model = network()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(5):
        model.train()
        total = 0.0
        for x, y in train:
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(train):.4f} test acc {evaluate(model, test):.3f}")


if __name__ == "__main__":
    main()
