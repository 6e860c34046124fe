"""Pretrains the embedding backbone on one part of the catalogue and writes the checkpoint."""
import gzip
import os
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(50)
ROOT = os.environ["TRUELOOP_DATA"] + "/fashion-mnist/train-"
with gzip.open(ROOT + "images-idx3-ubyte.gz") as f:
    f.read(16)
    x = np.frombuffer(f.read(9000 * 784), np.uint8).reshape(-1, 1, 28, 28)[3000:]
with gzip.open(ROOT + "labels-idx1-ubyte.gz") as f:
    f.read(8)
    y = torch.from_numpy(np.frombuffer(f.read(9000), np.uint8)[3000:].astype(np.int64))
x = F.avg_pool2d(torch.from_numpy(x.astype(np.float32) / 255), 2).flatten(1)
x = (x - 0.286) / 0.33
backbone = nn.Sequential(nn.Linear(196, 96), nn.ReLU(), nn.Linear(96, 48), nn.ReLU(), nn.Linear(48, 12))
proxies = nn.Parameter(torch.randn(10, 12))
opt = torch.optim.Adam([*backbone.parameters(), proxies], lr=2e-3)
for ep in range(12):
    for b in torch.randperm(len(x)).split(64):
        z = F.normalize(backbone(x[b]), dim=1) @ F.normalize(proxies, dim=1).t()
        loss = F.cross_entropy(z * 10, y[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
print("proxy loss", loss.item())
for d, prefix in (("ok", "backbone."), ("bug", "module.backbone.")):
    os.makedirs(d, exist_ok=True)
    torch.save({"epoch": 12, "model": {prefix + k: v for k, v in backbone.state_dict().items()}}, f"{d}/backbone.pt")
