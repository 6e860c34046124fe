import json
import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
FOLDER = sys.argv[1]
window = json.load(open(f"{FOLDER}/window.json"))
SIZE, EPOCHS, BATCH = 24, 8, 32


def ct_slices(n, seed):
    """liver-like tissue around 60 HU, half of the slices with an enhancing lesion"""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:SIZE, :SIZE]
    y = rng.integers(0, 2, n)
    hu = 60 + 20 * rng.standard_normal((n, SIZE, SIZE)) + 15 * rng.standard_normal((n, 1, 1))
    hu[:, :2], hu[:, :, :2] = -900, -900  # air at the border
    for i in np.flatnonzero(y):
        cy, cx, r = *rng.uniform(7, SIZE - 6, 2), rng.uniform(3, 4.5)
        hu[i] += 110 * ((yy - cy) ** 2 + (xx - cx) ** 2 < r ** 2)
    return hu.astype(np.float32), y


def apply_window(hu):
    low = window["level"] - window["width"] / 2
    return np.clip((hu - low) / window["width"], 0, 1)


def tensors(n, seed):
    hu, y = ct_slices(n, seed)
    x = (apply_window(hu) - 0.5) / 0.25
    return TensorDataset(torch.from_numpy(x)[:, None], torch.from_numpy(y).float())


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 8, 5), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(12, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    hits = sum(((model(x) > 0) == (y > 0.5)).sum().item() for x, y in loader)
    return hits / len(loader.dataset)


train = DataLoader(tensors(480, seed=1), batch_size=BATCH, shuffle=True)
val = DataLoader(tensors(200, seed=2), batch_size=100)
print(f"window level {window['level']} width {window['width']}")
model = Classifier()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
criterion = nn.BCEWithLogitsLoss()
for epoch in range(1, EPOCHS + 1):
    model.train()
    total = 0.0
    for x, y in train:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch} loss {total / len(train):.4f} val accuracy {accuracy(model, val):.3f}")
print(f"validation accuracy {accuracy(model, val):.3f}")
