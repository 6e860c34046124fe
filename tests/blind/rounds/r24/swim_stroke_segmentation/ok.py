# Segment a swimmer's wrist accelerometer into rest / crawl / breast / back / turn, sample by sample (1D U-Net).
import json

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

HP = json.loads('{"rate": 12, "length": 320, "window": 192, "train": 360, "valid": 120,'
                ' "epochs": 12, "batch": 20, "lr": 0.004, "width": 16, "seed": 3}')
CLASSES = ("rest", "crawl", "breast", "back", "turn")


def record(rng):
    """One recording: three axes (g), label per sample."""
    n, rate = HP["length"], HP["rate"]
    sig, lab, k = np.zeros((3, n)), np.zeros(n, dtype=np.int64), 0
    style = rng.integers(1, 4)
    cadence = rng.uniform(0.7, 1.3)
    while k < n:
        if lab[k - 1] in (1, 2, 3) and k:
            c, dur = (4, rng.integers(14, 30)) if rng.random() < 0.65 else (0, rng.integers(20, 50))
        elif rng.random() < 0.25 and not (k and lab[k - 1] == 0):
            c, dur = 0, rng.integers(20, 50)
        else:
            style = style if rng.random() < 0.5 else rng.integers(1, 4)
            c, dur = style, rng.integers(40, 90)
        m = min(int(dur), n - k)
        t = np.arange(m) / rate
        w = 2 * np.pi * cadence * t + rng.uniform(0, 6)
        a = rng.uniform(0.7, 1.2)
        if c == 0:
            seg = np.stack([0 * t, 0 * t, 0 * t + 1])
        elif c == 1:
            seg = np.stack([a * np.sin(w), 0.5 * a * np.cos(2 * w), 0.4 + 0.6 * a * np.cos(w)])
        elif c == 2:
            seg = np.stack([0.6 * a * np.sin(w) ** 3, 0.9 * a * np.sin(w), 0.7 + 0.3 * a * np.sin(2 * w)])
        elif c == 3:
            seg = np.stack([a * np.sin(w), -0.5 * a * np.cos(2 * w), -0.4 - 0.6 * a * np.cos(w)])
        else:
            bump = np.exp(-((t - t.mean()) / 0.4) ** 2)
            seg = np.stack([1.6 * a * bump, 0.3 * np.sin(9 * t), 1 - 2.2 * bump])
        sig[:, k:k + m], lab[k:k + m] = seg, c
        k += m
    tilt = np.eye(3) + rng.normal(0, 0.12, (3, 3))
    return (tilt @ sig + rng.normal(0, 0.3, sig.shape)).astype(np.float32), lab


class Swims(Dataset):
    def __init__(self, n, seed, train):
        self.rng = np.random.default_rng(seed)
        self.items = [record(self.rng) for _ in range(n)]
        self.train, self.window = train, HP["window"]

    def __len__(self):
        return len(self.items)

    def window_at(self):
        room = HP["length"] - self.window
        start = int(self.rng.integers(0, room + 1)) if self.train else room // 2
        return slice(start, start + self.window)

    def __getitem__(self, i):
        sig, lab = self.items[i]
        span = self.window_at()
        sig, lab = sig[:, span], lab[span]
        if self.train:
            sig = sig * self.rng.uniform(0.85, 1.15) + self.rng.normal(0, 0.05, sig.shape)
        return torch.as_tensor(sig, dtype=torch.float32), torch.as_tensor(lab)


def conv(cin, cout):
    return nn.Sequential(nn.Conv1d(cin, cout, 7, padding=3), nn.BatchNorm1d(cout), nn.ReLU(),
                         nn.Conv1d(cout, cout, 7, padding=3), nn.BatchNorm1d(cout), nn.ReLU())


class UNet1d(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.d1, self.d2, self.mid = conv(3, w), conv(w, 2 * w), conv(2 * w, 2 * w)
        self.u2, self.u1 = conv(4 * w, w), conv(2 * w, w)
        self.out = nn.Conv1d(w, len(CLASSES), 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool1d(a, 4))
        m = self.mid(F.max_pool1d(b, 2))
        b = self.u2(torch.cat([F.interpolate(m, scale_factor=2), b], 1))
        return self.out(self.u1(torch.cat([F.interpolate(b, scale_factor=4), a], 1)))


def mean_iou(net, loader):
    net.eval()
    inter, union = torch.zeros(len(CLASSES)), torch.zeros(len(CLASSES))
    with torch.no_grad():
        for x, y in loader:
            p = net(x).argmax(1)
            for c in range(len(CLASSES)):
                inter[c] += ((p == c) & (y == c)).sum()
                union[c] += ((p == c) | (y == c)).sum()
    return (inter / union.clamp(min=1)).mean().item()


torch.manual_seed(HP["seed"])
train = DataLoader(Swims(HP["train"], 1, True), HP["batch"], shuffle=True)
valid = DataLoader(Swims(HP["valid"], 2, False), 60)
net = UNet1d(HP["width"])
opt = torch.optim.AdamW(net.parameters(), lr=HP["lr"])
sched = torch.optim.lr_scheduler.OneCycleLR(opt, HP["lr"], epochs=HP["epochs"], steps_per_epoch=len(train))
for epoch in range(HP["epochs"]):
    net.train()
    seen = []
    for x, y in train:
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        seen.append(loss.item())
    print(f"epoch {epoch:2d} | train ce {np.mean(seen):.4f} | val mIoU {mean_iou(net, valid):.4f}")
