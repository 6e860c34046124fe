"""Point clouds of five scanned shapes, and a checkpoint of the same network trained on clean CAD clouds."""
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn

from train import PointNet

HERE = Path(__file__).resolve().parent
rng = np.random.default_rng(62)
POINTS = 48


def shape(kind):
    u = rng.normal(size=(POINTS, 3))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    t = rng.uniform(0, 2 * np.pi, POINTS)
    h = rng.uniform(-1, 1, POINTS)
    if kind == 0:
        return u
    if kind == 1:
        return np.stack([0.7 * np.cos(t), 0.7 * np.sin(t), h], 1)
    if kind == 2:
        r = 0.5 * (1 - h)
        return np.stack([r * np.cos(t), r * np.sin(t), h], 1)
    if kind == 3:
        return u / np.abs(u).max(1, keepdims=True) * 0.75
    p = rng.uniform(0, 2 * np.pi, POINTS)
    r = 0.75 + 0.28 * np.cos(p)
    return np.stack([r * np.cos(t), r * np.sin(t), 0.28 * np.sin(p)], 1)


def clouds(n, scan):
    y = rng.integers(0, 5, n)
    out = np.empty((n, POINTS, 3), np.float32)
    for i, k in enumerate(y):
        p = shape(k)
        if scan:
            q, _ = np.linalg.qr(rng.normal(size=(3, 3)))
            p = p @ q * rng.uniform(0.8, 1.2, 3)
            p = p + 0.05 * rng.normal(size=p.shape)
        out[i] = p - p.mean(0)
    return out, y.astype(np.int64)


torch.manual_seed(62)
net = PointNet(5)
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
sched = torch.optim.lr_scheduler.StepLR(opt, 3, gamma=0.1)
x, y = map(torch.from_numpy, clouds(500, False))
for epoch in range(12):
    for idx in torch.randperm(len(y)).split(32):
        opt.zero_grad()
        nn.functional.cross_entropy(net(x[idx]), y[idx]).backward()
        opt.step()
    sched.step()
train, test = clouds(1000, True), clouds(400, True)
full = {"model": net.state_dict(), "optimizer": opt.state_dict(), "scheduler": sched.state_dict(), "source": "cad"}
for name, keys in (("ok", ("model", "source")), ("bug", tuple(full))):
    d = HERE / name
    d.mkdir(exist_ok=True)
    torch.save({k: full[k] for k in keys}, d / "start.pt")
    np.savez_compressed(d / "scans.npz", x_train=train[0].astype(np.float16), y_train=train[1],
                        x_test=test[0].astype(np.float16), y_test=test[1])
