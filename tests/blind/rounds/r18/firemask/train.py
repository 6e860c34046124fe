"""Pixelwise fire mask from four bands (T4, T11, NIR, SWIR).  python train.py DIR"""
import sys
from pathlib import Path
import numpy as np
import torch
import torch.nn as nn


def load(path):
    z = np.load(path)
    return torch.from_numpy(z["bands"]), torch.from_numpy(z["mask"].astype(np.float32))


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())


def iou(net, x, y):
    net.eval()
    with torch.no_grad():
        p = net(x).squeeze(1) > 0
    t = y > 0.5
    return ((p & t).sum() / (p | t).sum().clamp(min=1)).item()


def run(root, epochs=9, bs=20):
    torch.manual_seed(3)
    x, y = load(root / "train.npz")
    xt, yt = load(root / "test.npz")
    mean, std = x.mean((0, 2, 3), keepdim=True), x.std((0, 2, 3), keepdim=True)
    x, xt = (x - mean) / std, (xt - mean) / std
    net = nn.Sequential(block(4, 12), block(12, 12), nn.Conv2d(12, 1, 1))
    pos = y.mean()
    crit = nn.BCEWithLogitsLoss(pos_weight=((1 - pos) / pos).sqrt())
    opt = torch.optim.Adam(net.parameters(), lr=6e-3)
    sched = torch.optim.lr_scheduler.StepLR(opt, 4, 0.3)
    for ep in range(epochs):
        net.train()
        agg = 0.0
        for idx in torch.randperm(len(x)).split(bs):
            loss = crit(net(x[idx]).squeeze(1), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            agg += loss.item() * len(idx)
        sched.step()
        print(f"epoch {ep}: loss {agg / len(x):.4f}")
    print(f"fire pixels {pos:.3f}; test IoU {iou(net, xt, yt):.3f}")


run(Path(sys.argv[1]))
