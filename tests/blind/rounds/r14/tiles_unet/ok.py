"""Segment bright blobs in aerial tiles from random crops."""
import argparse
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


def paint_tile(rng, size=40):
    yy, xx = np.mgrid[:size, :size]
    img = rng.normal(0, 0.35, (size, size)) + 0.3 * np.sin(xx / 7 + rng.uniform(0, 6))
    mask = np.zeros((size, size), dtype=np.int64)
    for _ in range(rng.integers(2, 5)):
        cy, cx, r = rng.uniform(4, size - 4), rng.uniform(4, size - 4), rng.uniform(3, 6.5)
        inside = (yy - cy) ** 2 + (xx - cx) ** 2 < r * r
        mask[inside] = 1
    img = img + 0.9 * mask
    return img.astype(np.float32), mask


class TileSet(Dataset):
    def __init__(self, n, seed, crop=None):
        rng = np.random.default_rng(seed)
        self.items = [paint_tile(rng) for _ in range(n)]
        self.crop = crop

    def __len__(self):
        return len(self.items)

    def random_crop(self, *arrays):
        h, w = arrays[0].shape
        top, left = random.randint(0, h - self.crop), random.randint(0, w - self.crop)
        return [a[top:top + self.crop, left:left + self.crop] for a in arrays]

    def __getitem__(self, i):
        img, mask = self.items[i]
        if self.crop:
            img, mask = self.random_crop(img, mask)
        return torch.from_numpy(img.copy())[None], torch.from_numpy(mask.copy())


class MiniUNet(nn.Module):
    def __init__(self, c=10):
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(1, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1), nn.ReLU())
        self.b = nn.Sequential(nn.Conv2d(c, 2 * c, 3, padding=1), nn.ReLU(), nn.Conv2d(2 * c, c, 3, padding=1), nn.ReLU())
        self.out = nn.Conv2d(2 * c, 2, 1)

    def forward(self, x):
        fine = self.a(x)
        coarse = F.interpolate(self.b(F.max_pool2d(fine, 2)), scale_factor=2, mode="nearest")
        return self.out(torch.cat([fine, coarse], 1))


def iou(net, loader):
    net.eval()
    inter = union = 0
    with torch.no_grad():
        for x, m in loader:
            p = net(x).argmax(1)
            inter += ((p == 1) & (m == 1)).sum().item()
            union += ((p == 1) | (m == 1)).sum().item()
    return inter / max(union, 1)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--crop", type=int, default=24)
    opt_ns = ap.parse_args()
    random.seed(1)
    torch.manual_seed(1)
    train_dl = DataLoader(TileSet(320, 1, opt_ns.crop), batch_size=16, shuffle=True)
    test_dl = DataLoader(TileSet(60, 2), batch_size=20)
    net = MiniUNet()
    adam = torch.optim.Adam(net.parameters(), lr=3e-3)
    for ep in range(opt_ns.epochs):
        net.train()
        acc = 0.0
        for x, m in train_dl:
            loss = F.cross_entropy(net(x), m)
            adam.zero_grad()
            loss.backward()
            adam.step()
            acc += loss.item()
        print(f"epoch {ep + 1}  ce {acc / len(train_dl):.3f}")
    print(f"blob IoU on test tiles {iou(net, test_dl):.3f}")
