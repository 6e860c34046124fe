"""Handwritten digits from scanned form sheets (a grid of cells, transcripts in a text file beside)."""
import glob
import os
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image
from torch.utils.data import ConcatDataset, DataLoader, Dataset

CELL, COLS = 12, 15


class SheetDataset(Dataset):
    def __init__(self, image_path, augment):
        sheet = 1 - np.asarray(Image.open(image_path), dtype=np.float32) / 255
        with open(os.path.splitext(image_path)[0] + ".txt") as f:
            self.labels = [int(line) for line in f if line.strip()]
        self.cells = []
        for i in range(len(self.labels)):
            r, c = divmod(i, COLS)
            self.cells.append(sheet[r * CELL:(r + 1) * CELL, c * CELL:(c + 1) * CELL])
        self.augment = augment

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        x = torch.from_numpy(self.cells[i].copy())[None]
        if self.augment:
            dy, dx = torch.randint(-1, 2, (2,)).tolist()
            x = torch.roll(x, (dy, dx), (1, 2))
        return x, self.labels[i]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 24, 3, padding=1)
        self.conv2 = nn.Conv2d(24, 48, 3, padding=1)
        self.drop = nn.Dropout(0.2)
        self.fc1 = nn.Linear(48 * 9, 96)
        self.fc2 = nn.Linear(96, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = self.drop(F.relu(self.fc1(x.flatten(1))))
        return self.fc2(x)


def load(folder, part, augment):
    paths = sorted(glob.glob(os.path.join(folder, part + "_*.png")))
    return ConcatDataset([SheetDataset(p, augment) for p in paths])


def test(model, loader):
    model.eval()
    correct, loss = 0, 0.0
    with torch.no_grad():
        for x, y in loader:
            out = model(x)
            loss += F.cross_entropy(out, y, reduction="sum").item()
            correct += (out.argmax(1) == y).sum().item()
    n = len(loader.dataset)
    return loss / n, correct / n


if __name__ == "__main__":
    folder = sys.argv[1]
    torch.manual_seed(0)
    train_set, test_set = load(folder, "train", True), load(folder, "test", False)
    train_loader = DataLoader(train_set, batch_size=32, shuffle=True)
    test_loader = DataLoader(test_set, batch_size=150)
    print(len(train_set), "training cells,", len(test_set), "test cells")
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(1, 16):
        model.train()
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        test_loss, acc = test(model, test_loader)
        print(f"Epoch {epoch}: loss {loss.item():.4f}, test loss {test_loss:.4f}, accuracy {100 * acc:.1f}%", flush=True)
    print(f"test accuracy {acc:.4f}")
