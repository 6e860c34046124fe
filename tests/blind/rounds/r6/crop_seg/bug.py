"""Field / no-field segmentation on 4-band tiles."""
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class SegConfig:
    n_train: int = 192
    n_valid: int = 48
    size: int = 32
    width: int = 8
    epochs: int = 6
    batch_size: int = 16
    lr: float = 4e-3
    seed: int = 5


def synth_tiles(n, size, rng):
    yy, xx = np.mgrid[0:size, 0:size]
    tiles = np.zeros((n, 4, size, size), np.float32)
    masks = np.zeros((n, size, size), np.float32)
    for i in range(n):
        for _ in range(rng.integers(1, 4)):
            cy, cx = rng.uniform(4, size - 4, 2)
            h, w = rng.uniform(4, 10, 2)
            masks[i][(abs(yy - cy) < h) & (abs(xx - cx) < w)] = 1
        soil = rng.normal([0.18, 0.17, 0.2, 0.28], 0.02)
        crop = rng.normal([0.08, 0.12, 0.07, 0.42], 0.02)
        m = masks[i]
        base = soil[:, None, None] * (1 - m) + crop[:, None, None] * m
        tiles[i] = base + rng.normal(0, 0.09, (4, size, size))
    return tiles, masks


class TileDataset(Dataset):
    def __init__(self, tiles, masks, augment=False):
        self.tiles = torch.from_numpy(tiles)
        self.masks = torch.from_numpy(masks)
        self.augment = augment

    def __len__(self):
        return len(self.tiles)

    def __getitem__(self, i):
        tile, mask = self.tiles[i], self.masks[i]
        if self.augment:
            if torch.rand(()) < 0.5:
                tile = tile.flip(-1)
            if torch.rand(()) < 0.5:
                tile = tile.flip(-2)
            tile = tile * (0.9 + 0.2 * torch.rand(()))
        return tile, mask


def conv_block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())


class SmallUNet(nn.Module):
    def __init__(self, bands, w):
        super().__init__()
        self.enc1, self.enc2 = conv_block(bands, w), conv_block(w, 2 * w)
        self.pool = nn.MaxPool2d(2)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.dec = conv_block(3 * w, w)
        self.head = nn.Conv2d(w, 1, 1)

    def forward(self, x):
        a = self.enc1(x)
        b = self.up(self.enc2(self.pool(a)))
        return self.head(self.dec(torch.cat([a, b], 1))).squeeze(1)


@torch.no_grad()
def mean_iou(model, loader):
    model.eval()
    inter = union = 0.0
    for x, m in loader:
        p = model(x) > 0
        m = m.bool()
        inter += (p & m).sum().item()
        union += (p | m).sum().item()
    return inter / max(union, 1)


def train(cfg):
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    tr_x, tr_m = synth_tiles(cfg.n_train, cfg.size, rng)
    va_x, va_m = synth_tiles(cfg.n_valid, cfg.size, rng)
    mu = tr_x.mean((0, 2, 3), keepdims=True)
    sd = tr_x.std((0, 2, 3), keepdims=True)
    train_dl = DataLoader(TileDataset((tr_x - mu) / sd, tr_m, augment=True), cfg.batch_size, shuffle=True)
    valid_dl = DataLoader(TileDataset((va_x - mu) / sd, va_m), 40)
    model = SmallUNet(4, cfg.width)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
    for epoch in range(cfg.epochs):
        model.train()
        losses = []
        for x, m in train_dl:
            loss = nn.functional.binary_cross_entropy_with_logits(model(x), m)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        print(f"epoch {epoch + 1}: bce {np.mean(losses):.4f}  valid IoU {mean_iou(model, valid_dl):.3f}")


if __name__ == "__main__":
    train(SegConfig())
