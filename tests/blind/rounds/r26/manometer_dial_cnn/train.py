"""Reads the pressure (0 to 16 bar) from the pictures of a camera that is bolted to a boiler manometer.

usage: python train.py DIR
"""
import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

torch.set_num_threads(1)
FULL_SCALE = 16.0


def load(path):
    z = np.load(path)
    img = torch.from_numpy(z["image"]).float().div_(255).unsqueeze(1)
    return img, torch.from_numpy(z["bar"])


def augment(img, opt, gen):
    """Small changes as they come from vibration and light: turn, shift, gain, noise."""
    n, _, h, w = img.shape

    def u():
        return torch.rand(n, generator=gen) * 2 - 1

    a = u() * math.radians(opt["rotate_deg"])
    c, s = a.cos(), a.sin()
    theta = torch.stack([c, -s, u() * opt["shift_px"] * 2 / w, s, c, u() * opt["shift_px"] * 2 / h], 1).view(n, 2, 3)
    grid = F.affine_grid(theta, list(img.shape), align_corners=False)
    out = F.grid_sample(img, grid, padding_mode="border", align_corners=False)
    out = out * (1 + opt["gain"] * u()).view(n, 1, 1, 1)
    return out + opt["noise"] * torch.randn(out.shape, generator=gen)


class DialNet(nn.Module):
    def __init__(self):
        super().__init__()
        def block(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2))
        self.body = nn.Sequential(block(1, 8), block(8, 16), block(16, 32))
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(32 * 9, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x):
        return self.head(self.body(x)).squeeze(1)


@torch.no_grad()
def error_bar(net, img, bar):
    net.eval()
    return (net(img) * FULL_SCALE - bar).abs().mean().item()


def main():
    folder = Path(sys.argv[1])
    opt = json.loads((folder / "options.json").read_text())
    torch.manual_seed(opt["seed"])
    gen = torch.Generator().manual_seed(opt["seed"] + 1)
    x, bar = load(folder / "dial_train.npz")
    xv, barv = load(folder / "dial_valid.npz")
    mean, std = x.mean(), x.std()

    net = DialNet()
    optim = torch.optim.AdamW(net.parameters(), lr=opt["lr"], weight_decay=1e-4)
    steps = opt["epochs"] * math.ceil(len(x) / opt["batch"])
    sched = torch.optim.lr_scheduler.OneCycleLR(optim, opt["lr"], total_steps=steps, pct_start=0.2)
    for epoch in range(1, opt["epochs"] + 1):
        net.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(opt["batch"]):
            seen = (augment(x[idx], opt["augment"], gen) - mean) / std
            loss = F.smooth_l1_loss(net(seen), bar[idx] / FULL_SCALE, beta=0.1)
            optim.zero_grad()
            loss.backward()
            optim.step()
            sched.step()
            total += loss.item() * len(idx)
        print(f"epoch {epoch:2d}  loss {total / len(x):.5f}  validation error {error_bar(net, (xv - mean) / std, barv):.3f} bar")


if __name__ == "__main__":
    main()
