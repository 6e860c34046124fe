"""Lesion segmentation on small ultrasound-like slices with a tiny U-Net."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

IMG = 32


def phantom(rng):
    yy, xx = np.mgrid[0:IMG, 0:IMG].astype(np.float32)
    img = 0.3 + 0.1 * np.sin(yy / rng.uniform(3, 6) + rng.uniform(0, 6))
    mask = np.zeros((IMG, IMG), np.float32)
    cy, cx = rng.uniform(7, IMG - 7, 2)
    ry, rx = rng.uniform(3, 7, 2)
    th = rng.uniform(0, np.pi)
    u = (xx - cx) * np.cos(th) + (yy - cy) * np.sin(th)
    v = -(xx - cx) * np.sin(th) + (yy - cy) * np.cos(th)
    mask[(u / rx) ** 2 + (v / ry) ** 2 < 1] = 1
    img = img - 0.22 * mask
    for _ in range(3):
        by, bx = rng.uniform(0, IMG, 2)
        img += 0.25 * np.exp(-((yy - by) ** 2 + (xx - bx) ** 2) / 8)
    img = img * rng.gamma(12, 1 / 12, img.shape)
    return img.astype(np.float32), mask


def random_flip(t):
    if torch.rand(1).item() < 0.5:
        t = t.flip(-1)
    if torch.rand(1).item() < 0.5:
        t = t.flip(-2)
    return t


class SliceDataset(Dataset):
    def __init__(self, n, seed, augment=False):
        rng = np.random.default_rng(seed)
        self.samples = [phantom(rng) for _ in range(n)]
        self.augment = augment

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        img, mask = (torch.from_numpy(a)[None] for a in self.samples[i])
        img = (img - img.mean()) / (img.std() + 1e-6)
        if self.augment:
            img, mask = random_flip(torch.cat([img, mask])).split(1)
            img = img * (0.9 + 0.2 * torch.rand(1))
        return img, mask


def conv(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
        nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class TinyUNet(nn.Module):
    def __init__(self, w=8):
        super().__init__()
        self.d1, self.d2, self.mid = conv(1, w), conv(w, 2 * w), conv(2 * w, 4 * w)
        self.up2 = nn.ConvTranspose2d(4 * w, 2 * w, 2, stride=2)
        self.u2 = conv(4 * w, 2 * w)
        self.up1 = nn.ConvTranspose2d(2 * w, w, 2, stride=2)
        self.u1 = conv(2 * w, w)
        self.out = nn.Conv2d(w, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.mid(F.max_pool2d(b, 2))
        b = self.u2(torch.cat([self.up2(c), b], 1))
        a = self.u1(torch.cat([self.up1(b), a], 1))
        return self.out(a)


def dice_bce(logits, mask):
    p = torch.sigmoid(logits)
    inter = (p * mask).sum((1, 2, 3))
    dice = (2 * inter + 1) / (p.sum((1, 2, 3)) + mask.sum((1, 2, 3)) + 1)
    return F.binary_cross_entropy_with_logits(logits, mask) + (1 - dice).mean()


@torch.no_grad()
def val_dice(net, loader):
    net.eval()
    scores = []
    for img, mask in loader:
        pred = (net(img) > 0).float()
        inter = (pred * mask).sum((1, 2, 3))
        scores.append((2 * inter + 1e-6) / (pred.sum((1, 2, 3)) + mask.sum((1, 2, 3)) + 1e-6))
    return torch.cat(scores).mean().item()


def train():
    torch.manual_seed(21)
    train_loader = DataLoader(SliceDataset(360, 1, augment=True), batch_size=16, shuffle=True, drop_last=True)
    val_loader = DataLoader(SliceDataset(120, 2), batch_size=40)
    net = TinyUNet()
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    epochs = 10
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    for epoch in range(epochs):
        net.train()
        running = 0.0
        for img, mask in train_loader:
            loss = dice_bce(net(img), mask)
            opt.zero_grad()
            loss.backward()
            opt.step()
            running += loss.item()
        sched.step()
        print(f"epoch {epoch + 1:02d} | loss {running / len(train_loader):.4f} | val dice {val_dice(net, val_loader):.4f}")


if __name__ == "__main__":
    train()
