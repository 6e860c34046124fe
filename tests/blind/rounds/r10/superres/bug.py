"""2x super resolution of small product photos (Fashion-MNIST), residual over bicubic."""
import gzip
import math
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

ROOT = os.path.join(os.environ["TRUELOOP_DATA"], "fashion-mnist")
ACCUM = 2


def read_images(name, count):
    with gzip.open(os.path.join(ROOT, name), "rb") as f:
        f.read(16)
        raw = f.read(count * 784)
    x = np.frombuffer(raw, np.uint8).reshape(count, 1, 28, 28)
    return torch.from_numpy(x.astype(np.float32) / 255.0)


class PairedSR(Dataset):
    """Low and high resolution versions of the same picture, flipped at random when training."""

    def __init__(self, hr, augment):
        self.hr = hr
        self.lr = F.avg_pool2d(hr, 2)
        self.augment = augment

    def __len__(self):
        return len(self.hr)

    def flip(self, img):
        horizontal, vertical = (torch.rand(2) < torch.tensor([0.5, 0.1])).tolist()
        dims = [d for d, on in ((-1, horizontal), (-2, vertical)) if on]
        return img.flip(dims) if dims else img

    def __getitem__(self, i):
        lr, hr = self.lr[i], self.hr[i]
        if self.augment:
            lr = self.flip(lr)
            hr = self.flip(hr)
        return lr, hr


class SRNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.PReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.PReLU(),
            nn.Conv2d(width, 4, 3, padding=1),
        )
        self.shuffle = nn.PixelShuffle(2)
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x):
        up = F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False)
        return up + self.shuffle(self.net(x))


def psnr(mse):
    return -10 * math.log10(max(mse, 1e-12))


@torch.no_grad()
def validate(model, loader):
    model.eval()
    err = base = n = 0
    for lr, hr in loader:
        err += (model(lr).clamp(0, 1) - hr).square().mean().item() * len(hr)
        up = F.interpolate(lr, scale_factor=2, mode="bicubic", align_corners=False)
        base += (up.clamp(0, 1) - hr).square().mean().item() * len(hr)
        n += len(hr)
    return psnr(err / n), psnr(base / n)


def train_epoch(model, loader, opt):
    model.train()
    total = 0.0
    opt.zero_grad()
    for i, (lr, hr) in enumerate(loader):
        loss = F.mse_loss(model(lr), hr)
        (loss / ACCUM).backward()
        if (i + 1) % ACCUM == 0 or i + 1 == len(loader):
            opt.step()
            opt.zero_grad()
        total += loss.item()
    return total / len(loader)


def main():
    torch.manual_seed(0)
    train = PairedSR(read_images("train-images-idx3-ubyte.gz", 1200), augment=True)
    val = PairedSR(read_images("t10k-images-idx3-ubyte.gz", 400), augment=False)
    train_loader = DataLoader(train, batch_size=16, shuffle=True, num_workers=0)
    val_loader = DataLoader(val, batch_size=100, num_workers=0)
    model = SRNet()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    epochs = 8
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs, eta_min=1e-4)
    best = -1.0
    for epoch in range(1, epochs + 1):
        loss = train_epoch(model, train_loader, opt)
        sched.step()
        ours, bicubic = validate(model, val_loader)
        best = max(best, ours)
        print(f"epoch {epoch:2d}  train mse {loss:.5f}  val PSNR {ours:.2f} dB  (bicubic {bicubic:.2f} dB)")
    print(f"last PSNR {ours:.2f}, best PSNR {best:.2f}")


if __name__ == "__main__":
    main()
