import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import Dataset, DataLoader

CLASSES = ["background", "field", "water", "roof"]


def draw_tile(rng, size=32):
    yy, xx = np.mgrid[0:size, 0:size]
    mask = np.zeros((size, size), dtype=np.int64)
    for _ in range(rng.integers(1, 3)):
        x0, y0 = rng.integers(0, size - 10, 2)
        w, h = rng.integers(8, 18, 2)
        mask[y0:y0 + h, x0:x0 + w] = 1
    cx, cy, r = rng.uniform(4, size - 4), rng.uniform(4, size - 4), rng.uniform(4, 8)
    mask[(xx - cx) ** 2 + 1.6 * (yy - cy) ** 2 < r * r] = 2
    for _ in range(rng.integers(2, 5)):
        x0, y0 = rng.integers(0, size - 6, 2)
        w, h = rng.integers(4, 7, 2)
        mask[y0:y0 + h, x0:x0 + w] = 3
    palette = np.array([[.45, .4, .35], [.4, .55, .3], [.25, .35, .5], [.65, .4, .35]])
    img = palette[mask] + rng.normal(0, 0.09, (size, size, 3))
    stripes = 0.12 * np.sin(xx * rng.uniform(1.0, 1.6))
    img += stripes[..., None] * (mask == 1)[..., None]
    img *= rng.uniform(0.75, 1.25)
    return img.transpose(2, 0, 1).astype(np.float32), mask


class TileDataset(Dataset):
    def __init__(self, n, seed, augment):
        rng = np.random.default_rng(seed)
        self.tiles = [draw_tile(rng) for _ in range(n)]
        self.augment = augment

    def __len__(self):
        return len(self.tiles)

    def __getitem__(self, i):
        img, mask = (torch.from_numpy(a) for a in self.tiles[i])
        if self.augment:
            if random.random() < 0.5:
                img, mask = img.flip(-1), mask.flip(-1)
            if random.random() < 0.5:
                img, mask = img.flip(-2), mask.flip(-2)
        return (img - 0.42) / 0.15, mask


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class TinyUNet(nn.Module):
    def __init__(self, n_classes, w=12):
        super().__init__()
        self.d1, self.d2, self.d3 = block(3, w), block(w, 2 * w), block(2 * w, 4 * w)
        self.u2, self.u1 = block(6 * w, 2 * w), block(3 * w, w)
        self.out = nn.Conv2d(w, n_classes, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.d3(F.max_pool2d(b, 2))
        b = self.u2(torch.cat([F.interpolate(c, scale_factor=2), b], 1))
        a = self.u1(torch.cat([F.interpolate(b, scale_factor=2), a], 1))
        return self.out(a)


class SoftDiceLoss(nn.Module):
    def __init__(self, n_classes, smooth=1.0):
        super().__init__()
        self.n_classes, self.smooth = n_classes, smooth

    def forward(self, logits, target):
        probs = torch.softmax(logits, dim=-1)
        onehot = F.one_hot(target, self.n_classes).permute(0, 3, 1, 2).to(probs.dtype)
        dims = (0, 2, 3)
        inter = (probs * onehot).sum(dims)
        union = probs.sum(dims) + onehot.sum(dims)
        dice = (2 * inter + self.smooth) / (union + self.smooth)
        return 1 - dice.mean()


@torch.no_grad()
def mean_iou(model, loader, n_classes):
    model.eval()
    conf = torch.zeros(n_classes, n_classes)
    for x, y in loader:
        pred = model(x).argmax(1)
        conf += torch.bincount((y * n_classes + pred).flatten(), minlength=n_classes ** 2).view(n_classes, n_classes)
    inter = conf.diag()
    return (inter / (conf.sum(0) + conf.sum(1) - inter).clamp(min=1))


def main():
    random.seed(0)
    torch.manual_seed(0)
    n = len(CLASSES)
    train = DataLoader(TileDataset(256, 1, True), batch_size=16, shuffle=True, drop_last=True)
    val = DataLoader(TileDataset(96, 2, False), batch_size=48)
    model = TinyUNet(n)
    criterion = SoftDiceLoss(n)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 14)
    for epoch in range(14):
        model.train()
        losses = []
        for x, y in train:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
        if epoch % 3 == 1:
            print(f"epoch {epoch + 1:02d}  dice loss {np.mean(losses):.4f}  mIoU {mean_iou(model, val, n).mean():.4f}")
    iou = mean_iou(model, val, n)
    print("  ".join(f"{c} {v:.3f}" for c, v in zip(CLASSES, iou.tolist())))
    print(f"final val mIoU {iou.mean():.4f}")


if __name__ == "__main__":
    main()
