import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

NAMES = ["background", "hello", "computer"]


def dataset(path):
    blob = np.load(path)
    return TensorDataset(torch.tensor(blob["x"].astype(np.float32)), torch.tensor(blob["y"].astype(np.int64)))


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, len(NAMES)))

    def forward(self, x):
        return self.layers(x)


@torch.no_grad()
def recalls(model, loader):
    model.eval()
    hit, seen = torch.zeros(len(NAMES)), torch.zeros(len(NAMES))
    for x, y in loader:
        pred = model(x).argmax(1)
        seen += torch.bincount(y, minlength=len(NAMES))
        hit += torch.bincount(y[pred == y], minlength=len(NAMES))
    return hit / seen


def main(folder):
    torch.manual_seed(3)
    train = DataLoader(dataset(f"{folder}/train.npz"), batch_size=50, shuffle=True)
    val = DataLoader(dataset(f"{folder}/val.npz"), batch_size=200)
    model = Detector()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(6):
        model.train()
        total, right, n = 0.0, 0, 0
        for x, y in train:
            logits = model(x)
            loss = loss_fn(logits, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
            right += (logits.argmax(1) == y).sum().item()
            n += len(y)
        r = recalls(model, val)
        detail = " ".join(f"{name} {v:.2f}" for name, v in zip(NAMES, r.tolist()))
        print(f"epoch {epoch} loss {total / n:.3f} train acc {right / n:.3f} val mean recall {r.mean():.3f} ({detail})")


main(sys.argv[1])
