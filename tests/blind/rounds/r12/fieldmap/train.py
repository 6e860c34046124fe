"""Semantic segmentation of farm tiles with a two-level U-net; cross-entropy plus soft Dice."""
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

CLASSES = ("soil", "ditch", "grove")


def conv(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(4, o), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, w=16):
        super().__init__()
        self.a = conv(2, w)
        self.b = conv(w, 2 * w)
        self.c = conv(2 * w, 2 * w)
        self.d = conv(3 * w, w)
        self.out = nn.Conv2d(w, len(CLASSES), 1)

    def forward(self, x):
        a = self.a(x)
        b = self.c(self.b(F.max_pool2d(a, 2)))
        up = F.interpolate(b, scale_factor=2, mode="nearest")
        return self.out(self.d(torch.cat([up, a], 1)))


def objective(logits, mask):
    ce = F.cross_entropy(logits, mask)
    p = logits.softmax(1)
    t = F.one_hot(mask, len(CLASSES)).permute(0, 3, 1, 2).float()
    inter = (p * t).sum((0, 2, 3))
    dice = (2 * inter + 1) / (p.sum((0, 2, 3)) + t.sum((0, 2, 3)) + 1)
    return ce + 0.5 * (1 - dice.mean())


def load(path):
    z = np.load(path)
    x = torch.from_numpy(z["tiles"]).permute(0, 3, 1, 2).float() / 255 - 0.45
    return x / 0.15, torch.from_numpy(z["masks"]).long()


def dihedral(x, m):
    k = int(torch.randint(4, ()))
    x, m = torch.rot90(x, k, (-2, -1)), torch.rot90(m, k, (-2, -1))
    if torch.rand(()) < 0.5:
        x, m = x.flip(-1), m.flip(-1)
    return x, m


def iou(net, x, m):
    net.eval()
    with torch.no_grad():
        p = torch.cat([net(b).argmax(1) for b in x.split(50)])
    return [((p == k) & (m == k)).sum().item() / max(((p == k) | (m == k)).sum().item(), 1)
            for k in range(len(CLASSES))]


folder = sys.argv[1]
torch.manual_seed(5)
x, m = load(folder + "/train.npz")
x_test, m_test = load(folder + "/test.npz")
net = UNet()
opt = torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=1e-3)
epochs = 11
warm = lambda e: min(1.0, (e + 1) / 2) * (0.5 ** (e // 5))
sched = torch.optim.lr_scheduler.LambdaLR(opt, warm)
for epoch in range(epochs):
    net.train()
    total = 0.0
    for idx in torch.randperm(len(x)).split(13):
        xb, mb = dihedral(x[idx], m[idx])
        loss = objective(net(xb), mb)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        total += loss.item() * len(idx)
    sched.step()
    print(f"epoch {epoch:2d} loss {total / len(x):.4f}")
scores = iou(net, x_test, m_test)
print("  ".join(f"{n} {s:.3f}" for n, s in zip(CLASSES, scores)))
print(f"test mean IoU {np.mean(scores):.4f}")
