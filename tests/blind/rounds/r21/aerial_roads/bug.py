"""Road extraction from small aerial tiles (binary segmentation)."""
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class Config:
    tiles: int = 320
    val_tiles: int = 80
    size: int = 32
    batch: int = 20
    epochs: int = 6
    lr: float = 5e-3
    seed: int = 21


def draw_tile(rng, size):
    yy, xx = np.mgrid[0:size, 0:size]
    mask = np.zeros((size, size), bool)
    for _ in range(rng.integers(1, 3)):
        angle = rng.uniform(0, np.pi)
        offset = rng.uniform(-size / 3, size / 3)
        bend = rng.uniform(-0.012, 0.012)
        u = (xx - size / 2) * np.cos(angle) + (yy - size / 2) * np.sin(angle)
        v = -(xx - size / 2) * np.sin(angle) + (yy - size / 2) * np.cos(angle)
        mask |= np.abs(v - offset - bend * u ** 2) < rng.uniform(1.2, 2.4)
    green = rng.normal(0, 1, (size // 4, size // 4)).repeat(4, 0).repeat(4, 1) * 0.06
    rgb = np.stack([0.32 + green, 0.42 + green, 0.28 + green])
    # roofs have the colour of the roads but not their shape
    for _ in range(rng.integers(2, 5)):
        r, c = rng.integers(0, size - 6, 2)
        rgb[:, r:r + rng.integers(3, 7), c:c + rng.integers(3, 7)] = 0.52
    shade = rng.uniform(0.45, 0.6)
    rgb = np.where(mask, shade, rgb) + rng.normal(0, 0.05, rgb.shape)
    return rgb.astype(np.float32), mask.astype(np.float32)


class RoadTiles(Dataset):
    def __init__(self, images, masks, augment=False, seed=0):
        self.images = torch.from_numpy(images)
        self.masks = torch.from_numpy(masks)
        self.augment = augment
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return len(self.images)

    def random_flip(self, image, mask):
        def flip(t):
            return t.flip([d for d in (-1, -2) if self.rng.random() < 0.5])
        return flip(image), flip(mask)

    def __getitem__(self, i):
        image, mask = self.images[i], self.masks[i]
        if self.augment:
            image, mask = self.random_flip(image, mask)
            image = image + 0.02 * torch.randn_like(image)
        return image, mask


class SmallUNet(nn.Module):
    def __init__(self, w=12):
        super().__init__()
        self.enc1 = self.block(3, w)
        self.enc2 = self.block(w, 2 * w)
        self.mid = self.block(2 * w, 2 * w)
        self.dec = self.block(4 * w, w)
        self.head = nn.Conv2d(2 * w, 1, 1)
        self.pool = nn.MaxPool2d(2)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")

    @staticmethod
    def block(a, b):
        return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())

    def forward(self, x):
        e1 = self.enc1(x)
        e2 = self.enc2(self.pool(e1))
        m = self.up(self.mid(self.pool(e2)))
        d = self.up(self.dec(torch.cat([m, e2], 1)))
        return self.head(torch.cat([d, e1], 1)).squeeze(1)


def loss_fn(logits, mask):
    bce = nn.functional.binary_cross_entropy_with_logits(logits, mask)
    p = logits.sigmoid()
    dice = 1 - (2 * (p * mask).sum((1, 2)) + 1) / (p.sum((1, 2)) + mask.sum((1, 2)) + 1)
    return bce + dice.mean()


@torch.no_grad()
def iou(model, loader):
    model.eval()
    inter = union = 0.0
    for image, mask in loader:
        pred = model(image) > 0
        truth = mask > 0.5
        inter += (pred & truth).sum().item()
        union += (pred | truth).sum().item()
    return inter / max(union, 1)


def main(cfg):
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    tiles = [draw_tile(rng, cfg.size) for _ in range(cfg.tiles + cfg.val_tiles)]
    images = np.stack([t[0] for t in tiles])
    masks = np.stack([t[1] for t in tiles])
    n = cfg.tiles
    mean = images[:n].mean((0, 2, 3), keepdims=True)
    std = images[:n].std((0, 2, 3), keepdims=True)
    images = (images - mean) / std

    train = DataLoader(RoadTiles(images[:n], masks[:n], augment=True, seed=cfg.seed), cfg.batch, shuffle=True)
    val = DataLoader(RoadTiles(images[n:], masks[n:]), 60)
    model = SmallUNet()
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg.epochs)
    for epoch in range(cfg.epochs):
        model.train()
        losses = []
        for image, mask in train:
            loss = loss_fn(model(image), mask)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        sched.step()
        print(f"epoch {epoch + 1:2d} loss {np.mean(losses):.4f} val IoU {iou(model, val):.4f}")
    print(f"final val IoU {iou(model, val):.4f}")


if __name__ == "__main__":
    main(Config())
