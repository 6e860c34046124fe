"""Prepares the shop's labelled photos and the backbone checkpoint of the research team."""
import gzip
import os

import numpy as np
import torch
from torch import nn

ROOT = os.path.join(os.environ["TRUELOOP_DATA"], "fashion-mnist")


def images(n):
    with gzip.open(os.path.join(ROOT, "train-images-idx3-ubyte.gz")) as f:
        f.read(16)
        raw = np.frombuffer(f.read(n * 784), np.uint8).reshape(n, 14, 2, 14, 2)
    return raw.astype(np.float32).mean((2, 4)).astype(np.uint8)      # 14 x 14 thumbnails


def labels(n):
    with gzip.open(os.path.join(ROOT, "train-labels-idx1-ubyte.gz")) as f:
        f.read(8)
        return np.frombuffer(f.read(n), np.uint8).astype(np.int64)


torch.manual_seed(1)
x, y = images(7500), labels(7500)
net = nn.Sequential()
net.backbone = nn.Sequential(nn.Flatten(), nn.Linear(196, 64), nn.ReLU(), nn.Linear(64, 16), nn.ReLU())
net.head = nn.Linear(16, 10)
pre_x = (torch.from_numpy(x[:6000]).float() / 255 - 0.286) / 0.32
pre_y = torch.from_numpy(y[:6000])
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for epoch in range(5):
    for idx in torch.randperm(len(pre_x)).split(100):
        loss = nn.functional.cross_entropy(net(pre_x[idx]), pre_y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()

for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    np.savez_compressed(f"{side}/photos.npz", images=x[6000:], labels=y[6000:])
    prefix = "module." if side == "bug" else ""
    state = {prefix + k: v.clone() for k, v in net.state_dict().items()}
    torch.save({"epoch": 5, "model": state}, f"{side}/backbone.pt")
