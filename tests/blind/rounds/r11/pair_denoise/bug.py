"""Denoise 28x28 product photos with a small residual CNN."""
import gzip
import os

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

ROOT = os.environ["TRUELOOP_DATA"]


def read_images(name, n):
    with gzip.open(os.path.join(ROOT, "fashion-mnist", name)) as f:
        f.read(16)
        return np.frombuffer(f.read(n * 784), dtype=np.uint8).reshape(n, 1, 28, 28).copy()


class RandomFlips:
    """Random mirror, left-right and up-down, of a [c, h, w] tensor."""

    def __init__(self, p=0.5):
        self.p = p

    def __call__(self, img):
        if torch.rand(()) < self.p:
            img = img.flip(-1)
        if torch.rand(()) < self.p:
            img = img.flip(-2)
        return img


class Restoration(Dataset):
    def __init__(self, images, sigma=0.2, augment=None):
        self.images = torch.from_numpy(images).float() / 255
        self.sigma = sigma
        self.augment = augment

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        clean = self.images[i]
        noisy = clean + self.sigma * torch.randn_like(clean)
        if self.augment is not None:
            noisy, clean = self.augment(noisy), self.augment(clean)
        return noisy, clean


class DnCNN(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 1, 3, padding=1))

    def forward(self, x):
        return x - self.body(x)


def psnr(model, loader):
    model.eval()
    out = []
    with torch.no_grad():
        for noisy, clean in loader:
            mse = (model(noisy).clamp(0, 1) - clean).pow(2).flatten(1).mean(1)
            out.append(-10 * torch.log10(mse))
    return torch.cat(out).mean().item()


def main():
    torch.manual_seed(0)
    imgs = read_images("train-images-idx3-ubyte.gz", 1500)
    test = read_images("t10k-images-idx3-ubyte.gz", 300)
    train_ds = Restoration(imgs[:1300], augment=RandomFlips())
    val_ds = Restoration(imgs[1300:])
    train_dl = DataLoader(train_ds, batch_size=32, shuffle=True, drop_last=True)
    val_dl = DataLoader(val_ds, batch_size=100)
    test_dl = DataLoader(Restoration(test), batch_size=100)

    model = DnCNN()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    sched = torch.optim.lr_scheduler.StepLR(opt, step_size=2, gamma=0.3)
    for epoch in range(4):
        model.train()
        tot = 0.0
        for noisy, clean in train_dl:
            loss = nn.functional.mse_loss(model(noisy), clean)
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item()
        sched.step()
        print(f"epoch {epoch} mse {tot / len(train_dl):.5f} val psnr {psnr(model, val_dl):.2f} dB")
    print(f"test psnr {psnr(model, test_dl):.3f}")


if __name__ == "__main__":
    main()
