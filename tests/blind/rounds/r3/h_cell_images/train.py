import json
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

cfg = json.load(open(f"{sys.argv[1]}/model.json"))
torch.manual_seed(cfg["seed"])
SIZE = 20


def cells(n, seed):
    """round, elongated or ring-shaped cells"""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:SIZE, :SIZE]
    y = rng.integers(0, 3, n)
    img = np.zeros((n, 1, SIZE, SIZE), np.float32)
    for i, k in enumerate(y):
        cy, cx, r, ang = *rng.uniform(8, 12, 2), rng.uniform(4, 6), rng.uniform(0, 3.14)
        u = (xx - cx) * np.cos(ang) + (yy - cy) * np.sin(ang)
        v = -(xx - cx) * np.sin(ang) + (yy - cy) * np.cos(ang)
        d = u ** 2 + (v * (2.2 if k == 1 else 1)) ** 2
        body = (d < r ** 2) & ((d > (0.5 * r) ** 2) if k == 2 else True)
        img[i, 0] = 0.5 * body + 0.25 * rng.standard_normal((SIZE, SIZE))
    return torch.from_numpy(img), torch.from_numpy(y)


def build(cfg):
    layers, c_in = [], 1
    for c in cfg["channels"]:
        layers += [
            nn.Conv2d(c_in, c, 3, padding=1, bias=False),
            nn.BatchNorm2d(c, momentum=cfg["bn_momentum"]), nn.ReLU(), nn.MaxPool2d(2),
        ]
        c_in = c
    side = SIZE // 2 ** len(cfg["channels"])
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(c_in * side * side, 3))


def run_epoch(model, loader, optimizer=None):
    model.train(optimizer is not None)
    loss_sum = hits = n = 0
    with torch.set_grad_enabled(optimizer is not None):
        for x, y in loader:
            logits = model(x)
            loss = F.cross_entropy(logits, y)
            if optimizer is not None:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            loss_sum += loss.item() * len(y)
            hits += (logits.argmax(1) == y).sum().item()
            n += len(y)
    return loss_sum / n, hits / n


train_x, train_y = cells(600, seed=1)
val_x, val_y = cells(250, seed=2)
train = DataLoader(TensorDataset(train_x, train_y), batch_size=40, shuffle=True)
val = DataLoader(TensorDataset(val_x, val_y), batch_size=125)
model = build(cfg)
optimizer = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
for epoch in range(1, cfg["epochs"] + 1):
    tl, ta = run_epoch(model, train, optimizer)
    vl, va = run_epoch(model, val)
    print(f"epoch {epoch} train loss {tl:.4f} acc {ta:.3f} | val loss {vl:.4f} acc {va:.3f}")
print(f"final train accuracy {ta:.3f}, validation accuracy {va:.3f}, validation loss {vl:.3f}")
