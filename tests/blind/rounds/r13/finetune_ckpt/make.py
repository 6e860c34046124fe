"""Writes bug/ and ok/: pretrained.pt (backbone weights), few.npz (small labelled set), test.npz."""
import os
import numpy as np
import torch
from torch import nn
HERE = os.path.dirname(os.path.abspath(__file__))


def task(n, seed, kind):
    rng = np.random.default_rng(seed)
    proj = np.random.default_rng(50).normal(0, 1, (6, 48)) / 2.5
    z = rng.normal(0, 1, (n, 6))
    x = np.tanh(z @ proj) + 0.25 * rng.normal(0, 1, (n, 48))
    s = z[:, [0, 1, 2]] * z[:, [3, 4, 5]]
    y = (s > 0) @ np.array([1, 2, 4]) if kind == "pre" else ((s > 0) @ np.array([1, 1, 1]) >= 2).astype(int) + 2 * (s[:, 0] > 0)
    return x.astype(np.float32), y.astype(np.int64)


torch.manual_seed(0)
body = nn.Sequential(nn.Linear(48, 96), nn.ReLU(), nn.Linear(96, 48), nn.ReLU())
head = nn.Linear(48, 8)
x, y = map(torch.from_numpy, task(8000, 1, "pre"))
opt = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=3e-3)
for _ in range(12):
    for idx in torch.randperm(len(x)).split(100):
        opt.zero_grad()
        nn.functional.cross_entropy(head(body(x[idx])), y[idx]).backward()
        opt.step()
for name in ("bug", "ok"):
    d = os.path.join(HERE, name)
    os.makedirs(d, exist_ok=True)
    pre = "module.body." if name == "bug" else "body."
    torch.save({pre + k: v for k, v in body.state_dict().items()}, os.path.join(d, "pretrained.pt"))
    for fn, n, s in (("few.npz", 150, 2), ("test.npz", 1500, 3)):
        a, b = task(n, s, "fine")
        np.savez(os.path.join(d, fn), x=a, y=b)
