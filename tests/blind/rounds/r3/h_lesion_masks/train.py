import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(2)
IGNORE, EPOCHS = 255, 8


class ScanSet(Dataset):
    def __init__(self, path, mean=None, std=None):
        z = np.load(path)
        self.image = torch.from_numpy(z["image"].astype(np.float32))[:, None]
        self.mask = torch.from_numpy(z["mask"].astype(np.int64))
        self.mean = self.image.mean() if mean is None else mean
        self.std = self.image.std() if std is None else std
        self.image = (self.image - self.mean) / self.std

    def __len__(self):
        return len(self.image)

    def __getitem__(self, i):
        return self.image[i], self.mask[i]


class SegNet(nn.Module):
    def __init__(self, c=10):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU(),
            nn.Conv2d(c, c, 3, padding=2, dilation=2), nn.BatchNorm2d(c), nn.ReLU(),
            nn.Conv2d(c, 2, 1),
        )

    def forward(self, x):
        return self.net(x)


@torch.no_grad()
def lesion_dice(model, loader):
    model.eval()
    inter = size = 0.0
    for img, mask in loader:
        pred = model(img).argmax(1) == 1
        truth = mask == 1
        inter += (pred & truth).sum().item()
        size += pred.sum().item() + truth.sum().item()
    return 2 * inter / max(size, 1)


folder = Path(sys.argv[1])
train_set = ScanSet(folder / "train.npz")
val_set = ScanSet(folder / "val.npz", train_set.mean, train_set.std)
train = DataLoader(train_set, batch_size=10, shuffle=True)
val = DataLoader(val_set, batch_size=20)
print(f"{len(train_set)} training and {len(val_set)} validation slices")
model = SegNet()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(1, EPOCHS + 1):
    model.train()
    total = 0.0
    for img, mask in train:
        loss = F.cross_entropy(model(img), mask, ignore_index=IGNORE)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch} loss {total / len(train):.4f} val lesion dice {lesion_dice(model, val):.4f}")
print(f"lesion dice on validation slices {lesion_dice(model, val):.4f}")
