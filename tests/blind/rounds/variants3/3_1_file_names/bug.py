import io

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

rng = np.random.default_rng(4)
torch.manual_seed(4)
CLASSES = 5
PATTERNS = rng.normal(size=(CLASSES, 10, 10)).astype(np.float32)


def write_archive(n):
    """Mimics a folder of images with a label list next to it."""
    labels = rng.integers(0, CLASSES, n)
    arrays = {}
    for i, c in enumerate(labels):
        arrays[f"img_{i}"] = PATTERNS[c] + 1.3 * rng.normal(size=(10, 10)).astype(np.float32)
    blob = io.BytesIO()
    np.savez(blob, **arrays)
    blob.seek(0)
    return blob, labels


def read_archive(blob, labels):
    with np.load(blob) as z:
        names = sorted(z.files)
        stack = np.stack([z[name] for name in names])
    x = torch.from_numpy(stack).unsqueeze(1)
    y = torch.from_numpy(np.asarray(labels)).long()
    return TensorDataset(x, y)


class SmallConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 12, 3)
        self.fc1 = nn.Linear(12 * 64, 48)
        self.fc2 = nn.Linear(48, CLASSES)

    def forward(self, x):
        h = F.gelu(self.conv(x)).flatten(1)
        return self.fc2(F.gelu(self.fc1(h)))


dataset = read_archive(*write_archive(1200))
train_set, valid_set = random_split(dataset, [900, 300], generator=torch.Generator().manual_seed(0))
train_dl = DataLoader(train_set, batch_size=60, shuffle=True)
valid_dl = DataLoader(valid_set, batch_size=150)

net = SmallConv()
opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=0.05)
for epoch in range(8):
    net.train()
    losses = []
    for x, y in train_dl:
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    net.eval()
    hits = 0
    with torch.no_grad():
        for x, y in valid_dl:
            hits += (net(x).argmax(1) == y).sum().item()
    print(f"epoch {epoch}  train {np.mean(losses):.4f}  valid acc {hits / len(valid_set):.3f}")
