"""Extrusion rate of a lava dome (m3/s) from thermal camera frames in kelvin."""
import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIZE = 24
yy, xx = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32)


def frame(rng):
    rate = rng.gamma(3.0, 0.6)
    air = rng.uniform(272, 290)
    img = np.full((SIZE, SIZE), air, dtype=np.float32) + 0.4 * (SIZE - yy)
    cx, cy = rng.uniform(8, 16, 2)
    radius = 2.2 + 1.7 * np.sqrt(rate)
    r = np.hypot(xx - cx, (yy - cy) * 1.3)
    img += (60 + 35 * rate) * np.exp(-(r / radius) ** 2)
    for _ in range(rng.poisson(1.0 + 1.8 * rate)):
        a, length = rng.uniform(0, np.pi), rng.uniform(1, radius)
        px, py = cx + rng.normal(0, radius / 2), cy + rng.normal(0, radius / 2.6)
        along = (xx - px) * np.cos(a) + (yy - py) * np.sin(a)
        across = -(xx - px) * np.sin(a) + (yy - py) * np.cos(a)
        img += rng.uniform(120, 260) * np.exp(-(along / length) ** 2 - (across / 0.7) ** 2)
    plume = np.exp(-((xx - rng.uniform(4, 20)) / 3.5) ** 2) * rng.uniform(0, 0.3)
    img = img * (1 - plume) + air * plume + rng.normal(0, 3, img.shape)
    return img.astype(np.float32), np.float32(rate)


class DomeFrames(Dataset):
    def __init__(self, images, rates, mean, std, training):
        self.images, self.rates = images, rates
        self.mean, self.std = mean, std
        self.training = training
        self.rng = np.random.default_rng(1)

    def __len__(self):
        return len(self.rates)

    def __getitem__(self, i):
        img = self.images[i]
        if self.training:
            if self.rng.random() < 0.5:
                img = img[:, ::-1]
            dx = int(self.rng.integers(-2, 3))
            img = np.roll(img, dx, axis=1)
        img = (img - self.mean) / self.std
        return torch.from_numpy(np.ascontiguousarray(img))[None], torch.tensor(self.rates[i])


class DomeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 12, 3, padding=1)
        self.conv2 = nn.Conv2d(12, 24, 3, padding=1)
        self.conv3 = nn.Conv2d(24, 24, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.fc = nn.Sequential(nn.Linear(24 * 9, 48), nn.ReLU(), nn.Linear(48, 1))

    def forward(self, x):
        x = self.pool(torch.relu(self.conv1(x)))
        x = self.pool(torch.relu(self.conv2(x)))
        x = self.pool(torch.relu(self.conv3(x)))
        return self.fc(x.flatten(1)).squeeze(1)


def train_epoch(model, loader, opt):
    model.train()
    total = 0.0
    for img, rate in loader:
        loss = nn.functional.smooth_l1_loss(model(img), rate)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(rate)
    return total / len(loader.dataset)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    pred = torch.cat([model(img) for img, _ in loader])
    true = torch.cat([rate for _, rate in loader])
    mae = (pred - true).abs().mean().item()
    r2 = 1 - ((pred - true) ** 2).sum().item() / ((true - true.mean()) ** 2).sum().item()
    return mae, r2


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--frames", type=int, default=1200)
    ap.add_argument("--epochs", type=int, default=12)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--seed", type=int, default=10)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    images, rates = zip(*(frame(rng) for _ in range(args.frames)))
    images, rates = np.stack(images), np.array(rates)
    cut = int(0.8 * args.frames)
    mean, std = float(images[:cut].mean()), float(images[:cut].std())
    train_loader = DataLoader(DomeFrames(images[:cut], rates[:cut], mean, std, True), batch_size=32, shuffle=True)
    val_loader = DataLoader(DomeFrames(images[cut:], rates[cut:], mean, std, False), batch_size=128)

    model = DomeNet()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    for epoch in range(1, args.epochs + 1):
        loss = train_epoch(model, train_loader, opt)
        sched.step()
        mae, r2 = validate(model, val_loader)
        print(f"epoch {epoch:2d}  train loss {loss:.4f}  val MAE {mae:.3f} m3/s  R2 {r2:.3f}")


if __name__ == "__main__":
    main()
