import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

SEED, SIZE, EPOCHS = 8, 24, 8
random.seed(SEED)
np.random.seed(SEED)
torch.manual_seed(SEED)


def phantom(rng):
    """a slice with a bright organ, a lesion in it and noise"""
    yy, xx = np.mgrid[:SIZE, :SIZE]
    cy, cx = rng.uniform(7, 17, 2)
    organ = ((yy - cy) / rng.uniform(6, 7)) ** 2 + ((xx - cx) / rng.uniform(5, 7)) ** 2 < 1
    ly, lx, r = cy + rng.uniform(-3, 3), cx + rng.uniform(-3, 3), rng.uniform(2, 3.5)
    lesion = ((yy - ly) ** 2 + (xx - lx) ** 2 < r ** 2) & organ
    img = 0.4 * organ + 0.3 * lesion + 0.1 * rng.standard_normal((SIZE, SIZE))
    return img.astype(np.float32), lesion.astype(np.float32)


def hflip(a):
    return a.flip(-1) if random.random() < 0.5 else a


def vflip(a):
    return a.flip(-2) if random.random() < 0.5 else a


class Slices(Dataset):
    def __init__(self, n, seed, augment=False):
        rng = np.random.default_rng(seed)
        self.items = [phantom(rng) for _ in range(n)]
        self.augment = augment

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        img, mask = (torch.from_numpy(a)[None] for a in self.items[i])
        if self.augment:
            both = vflip(hflip(torch.cat([img, mask])))
            img, mask = both[:1], both[1:]
        return img, mask


class TinyUNet(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        block = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(2, o), nn.ReLU())
        self.d1, self.d2 = block(1, c), block(c, 2 * c)
        self.mid, self.u1 = block(2 * c, 2 * c), block(3 * c, c)
        self.out = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.mid(self.d2(F.max_pool2d(a, 2)))
        b = F.interpolate(b, scale_factor=2, mode="nearest")
        return self.out(self.u1(torch.cat([a, b], 1)))


@torch.no_grad()
def dice_score(model, loader):
    model.eval()
    scores = []
    for img, mask in loader:
        pred = (model(img) > 0).float()
        inter = (pred * mask).sum((1, 2, 3))
        scores.append((2 * inter + 1e-6) / (pred.sum((1, 2, 3)) + mask.sum((1, 2, 3)) + 1e-6))
    return torch.cat(scores).mean().item()


train = DataLoader(Slices(200, seed=1, augment=True), batch_size=16, shuffle=True)
val = DataLoader(Slices(60, seed=2), batch_size=30)
model = TinyUNet()
optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
for epoch in range(1, EPOCHS + 1):
    model.train()
    total = 0.0
    for img, mask in train:
        loss = F.binary_cross_entropy_with_logits(model(img), mask)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch} loss {total / len(train):.4f} val dice {dice_score(model, val):.4f}")
print(f"validation dice {dice_score(model, val):.4f}")
