"""Cell counting with density maps built from point annotations.

usage: python train.py FOLDER     (FOLDER: images.npz, points_train.csv, points_valid.csv)
"""
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn

SIGMA = 1.2


def read_points(path, n_images):
    rows = np.loadtxt(path, delimiter=",", skiprows=1)
    return [torch.tensor(rows[rows[:, 0] == i, 1:3], dtype=torch.float32) for i in range(n_images)]


def density_map(points, side):
    grid = torch.arange(side).float()
    gx = torch.exp(-(grid - points[:, :1]) ** 2 / (2 * SIGMA ** 2))
    gy = torch.exp(-(grid - points[:, 1:]) ** 2 / (2 * SIGMA ** 2))
    bumps = gy[:, :, None] * gx[:, None, :]
    return (bumps / bumps.sum(dim=(1, 2), keepdim=True)).sum(0)


def load(folder, split):
    images = torch.from_numpy(np.load(folder / "images.npz")[split]).float().unsqueeze(1) / 255
    points = read_points(folder / f"points_{split}.csv", len(images))
    density = torch.stack([density_map(p, images.shape[-1]) for p in points]).unsqueeze(1)
    counts = torch.tensor([float(len(p)) for p in points])
    return images, density, counts


def build_net(ch=12):
    return nn.Sequential(
        nn.Conv2d(1, ch, 3, padding=1), nn.ReLU(),
        nn.Conv2d(ch, ch, 3, padding=1), nn.ReLU(),
        nn.Conv2d(ch, 1, 3, padding=1))


@torch.no_grad()
def evaluate(net, images, density, counts):
    net.eval()
    pred = net(images)
    mae = (pred.sum(dim=(1, 2, 3)) - counts).abs().mean().item()
    game = lambda m: nn.functional.avg_pool2d(m, 6, divisor_override=1)
    cell = (game(pred) - game(density)).abs().sum(dim=(1, 2, 3)).mean().item()
    return mae, cell


def main(folder):
    torch.manual_seed(6)
    train, valid = load(folder, "train"), load(folder, "valid")
    print(f"train {len(train[0])} images, {train[2].mean():.1f} cells each; valid {len(valid[0])}, {valid[2].mean():.1f}")
    net = build_net()
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    epochs, batch = 16, 16
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    for epoch in range(1, epochs + 1):
        net.train()
        total, steps = 0.0, 0
        for idx in torch.randperm(len(train[0])).split(batch):
            img, den, _ = (a[idx] for a in train)
            loss = (net(img) - den).pow(2).sum(dim=(1, 2, 3)).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            total, steps = total + loss.item(), steps + 1
        sched.step()
        mae, cell = evaluate(net, *valid)
        print(f"epoch {epoch:2d}  loss {total / steps:.4f}  valid MAE {mae:.2f}  GAME {cell:.2f}")
    base = (valid[2] - train[2].mean()).abs().mean().item()
    print(f"final valid MAE {mae:.2f}  GAME {cell:.2f}   (mean count: MAE {base:.2f})")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
