"""Recognise ballet steps (plie, tendu, pirouette, jete, arabesque) from 2D pose tracks with a small spatio-temporal GCN."""
import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

SEED = 11
STEPS = ["plie", "tendu", "pirouette", "jete", "arabesque"]
BONES = [(0, 1), (1, 2), (2, 3), (1, 4), (4, 5), (1, 6), (6, 7), (7, 8), (6, 9), (9, 10), (8, 11), (10, 12)]
REST = np.array([[0, 1.7], [0, 1.45], [-.3, 1.2], [-.5, 1.0], [.3, 1.2], [.5, 1.0], [0, .95],
                 [-.12, .5], [-.12, .08], [.12, .5], [.12, .08], [-.2, 0], [.2, 0]], dtype=np.float32)
T, J, C = 24, 13, 3


def make_clip(rng, step):
    """One clip: (T, J, C) with x, y and the keypoint confidence of the tracker."""
    t = np.linspace(0, 1, T) * rng.uniform(0.8, 1.2) + rng.uniform(0, 0.3)
    pose = np.repeat(REST[None], T, 0).copy()
    amp = rng.uniform(0.6, 1.2)
    wave = np.sin(math.pi * t)
    side = rng.integers(2)
    leg = [9, 10, 12] if side else [7, 8, 11]
    arm = [4, 5] if side else [2, 3]
    if step == 0:
        pose[:, :8, 1] -= 0.25 * amp * (0.5 - 0.5 * np.cos(4 * math.pi * t))[:, None]
        pose[:, 9, 1] -= 0.12 * amp * (0.5 - 0.5 * np.cos(4 * math.pi * t))
    elif step == 1:
        pose[:, leg[1:], 0] += (1 if side else -1) * 0.3 * amp * (0.5 - 0.5 * np.cos(4 * math.pi * t))[:, None]
    elif step == 2:
        pose[..., 0] *= np.cos(2 * math.pi * t * amp * 2)[:, None]
        pose[:, leg, 1] += 0.2
    elif step == 3:
        pose[..., 1] += 0.35 * amp * np.clip(np.sin(2 * math.pi * t), 0, None)[:, None]
        pose[..., 0] += (0.5 * amp * (t - 0.5))[:, None]
    else:
        pose[:, leg, 1] += 0.35 * amp * wave[:, None]
        pose[:, arm, 1] += 0.3 * amp * wave[:, None]
    pose = pose * rng.uniform(0.8, 1.25) + rng.normal(0, 0.4, 2)
    pose += rng.normal(0, 0.07, pose.shape) + 0.05 * np.cumsum(rng.normal(0, 0.15, (T, 1, 2)), 0)
    pose -= pose[:1, 6:7]
    conf = np.clip(rng.beta(8, 2, (T, J, 1)), 0, 1)
    return np.concatenate([pose, conf], -1)


def make_set(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, len(STEPS), n)
    x = np.stack([make_clip(rng, k) for k in y]).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy(y)


def skeleton():
    a = torch.eye(J)
    for i, j in BONES:
        a[i, j] = a[j, i] = 1.0
    d = a.sum(1).rsqrt()
    return d[:, None] * a * d[None]


class STBlock(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.spatial = nn.Conv2d(cin, cout * 2, 1)
        self.temporal = nn.Conv2d(cout, cout, (5, 1), (stride, 1), (2, 0))
        self.bn1, self.bn2 = nn.BatchNorm2d(cout), nn.BatchNorm2d(cout)

    def forward(self, x, adj):
        own, nb = self.spatial(x).chunk(2, 1)
        x = F.relu(self.bn1(own + torch.einsum("nctj,jk->nctk", nb, adj)))
        return F.relu(self.bn2(self.temporal(x)))


class StepNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.register_buffer("adj", skeleton())
        self.joint = nn.Parameter(0.3 * torch.randn(1, width, 1, J))
        self.inp = nn.Conv2d(C, width, 1)
        self.blocks = [STBlock(width, width), STBlock(width, width, 2), STBlock(width, 2 * width, 2)]
        self.head = nn.Linear(2 * width, len(STEPS))

    def forward(self, clip):
        n, t, j, c = clip.shape
        x = clip.permute(0, 3, 1, 2)  # channels first for the convolutions
        x = F.relu(self.inp(x) + self.joint)
        for b in self.blocks:
            x = b(x, self.adj)
        return self.head(F.dropout(x.mean((2, 3)), 0.2, self.training))


def accuracy(net, loader):
    net.eval()
    with torch.no_grad():
        hits = sum((net(x).argmax(1) == y).sum().item() for x, y in loader)
    return hits / len(loader.dataset)


def main():
    random.seed(SEED), np.random.seed(SEED), torch.manual_seed(SEED)
    xtr, ytr = make_set(700, 1)
    xva, yva = make_set(400, 2)
    mu, sd = xtr.mean((0, 1, 2)), xtr.std((0, 1, 2))
    train = DataLoader(TensorDataset((xtr - mu) / sd, ytr), 32, shuffle=True)
    valid = DataLoader(TensorDataset((xva - mu) / sd, yva), 250)
    net = StepNet()
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-3)
    epochs = 11
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 5e-3, total_steps=epochs * len(train))
    for ep in range(epochs):
        net.train()
        tot = 0.0
        for x, y in train:
            loss = F.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            tot += loss.item() * len(x)
        print(f"epoch {ep + 1:2d}  train loss {tot / len(xtr):.4f}  val acc {accuracy(net, valid):.3f}")


if __name__ == "__main__":
    main()
