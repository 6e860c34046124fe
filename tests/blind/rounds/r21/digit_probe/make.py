"""Trains a digit encoder on images 20000-25000 of MNIST and writes encoder.pt for the probe."""
import gzip
import os
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

root = Path(os.environ["TRUELOOP_DATA"]) / "mnist"
LO, HI = 20000, 25000
with gzip.open(root / "train-images-idx3-ubyte.gz") as f:
    f.read(16 + LO * 784)
    x = torch.from_numpy(np.frombuffer(f.read((HI - LO) * 784), dtype=np.uint8).astype(np.float32)).view(-1, 1, 28, 28)
with gzip.open(root / "train-labels-idx1-ubyte.gz") as f:
    f.read(8 + LO)
    y = torch.from_numpy(np.frombuffer(f.read(HI - LO), dtype=np.uint8).astype(np.int64))
x = x / 255 - 0.13

torch.manual_seed(0)
enc = nn.Sequential()
enc.add_module("conv1", nn.Conv2d(1, 8, 5, stride=2, padding=2))
enc.add_module("act1", nn.ReLU())
enc.add_module("conv2", nn.Conv2d(8, 16, 3, stride=2, padding=1))
enc.add_module("act2", nn.ReLU())
enc.add_module("flat", nn.Flatten())
enc.add_module("proj", nn.Linear(16 * 49, 32))
head = nn.Linear(32, 10)
opt = torch.optim.Adam([*enc.parameters(), *head.parameters()], lr=2e-3)
for epoch in range(3):
    for idx in torch.randperm(len(x)).split(64):
        loss = F.cross_entropy(head(F.relu(enc(x[idx]))), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()

weights = enc.state_dict()
for side, prefix in (("bug", "module.encoder."), ("ok", "encoder.")):
    os.makedirs(side, exist_ok=True)
    state = {prefix + k: v.clone() for k, v in weights.items()}
    torch.save({"model": state, "epoch": 3, "arch": "convenc32"}, f"{side}/encoder.pt")
