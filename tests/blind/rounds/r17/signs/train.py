"""Small CNN for traffic sign crops.

train.npz holds the crops with their class ids, classes.txt has one class name per id,
test.csv carries the sign name of each test crop.
"""
import csv
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset, random_split

root = Path(sys.argv[1])
torch.manual_seed(0)


def to_tensor(images):
    return torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255.0 - 0.5


classes = (root / "classes.txt").read_text().split()
index = {name: i for i, name in enumerate(classes)}

z = np.load(root / "train.npz")
full = TensorDataset(to_tensor(z["images"]), torch.from_numpy(z["class_id"]).long())
train, valid = random_split(full, [1400, 200], generator=torch.Generator().manual_seed(1))

with open(root / "test.csv") as f:
    rows = list(csv.DictReader(f))
test_images = np.load(root / "test_images.npy")
test_y = torch.tensor([index[r["sign"]] for r in rows])
test = TensorDataset(to_tensor(test_images[[int(r["row"]) for r in rows]]), test_y)


class SignNet(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2))
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(32 * 9, n))

    def forward(self, x):
        return self.head(self.body(x))


@torch.no_grad()
def accuracy(model, data):
    model.eval()
    hits = 0
    for x, y in DataLoader(data, batch_size=250):
        hits += (model(x).argmax(1) == y).sum().item()
    return hits / len(data)


model = SignNet(len(classes))
opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
loader = DataLoader(train, batch_size=50, shuffle=True)
loss_fn = nn.CrossEntropyLoss()

for epoch in range(6):
    model.train()
    total = 0.0
    for x, y in loader:
        opt.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        opt.step()
        total += loss.item() * len(x)
    print(f"epoch {epoch} loss {total / len(train):.4f} valid acc {accuracy(model, valid):.3f}")

print(f"test accuracy {accuracy(model, test):.3f}")
