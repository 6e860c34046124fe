"""Writes bug/ and ok/: transfer.npz (unlabelled inputs), teacher_logits.npy, test.npz."""
import gzip, os
import numpy as np
import torch
from torch import nn
HERE = os.path.dirname(os.path.abspath(__file__))
D = os.path.join(os.environ["TRUELOOP_DATA"], "mnist")


def read(kind, n):
    with gzip.open(f"{D}/{kind}-images-idx3-ubyte.gz") as f:
        x = np.frombuffer(f.read(16 + n * 784), np.uint8, offset=16).reshape(n, 14, 2, 14, 2).mean((2, 4))
    with gzip.open(f"{D}/{kind}-labels-idx1-ubyte.gz") as f:
        y = np.frombuffer(f.read(8 + n), np.uint8, offset=8).astype(np.int64)
    return x.reshape(n, 196).astype(np.uint8), y


torch.manual_seed(0)
x, y = read("train", 5000)
xt, yt = read("t10k", 1500)
X, Y = torch.from_numpy(x).float() / 255, torch.from_numpy(y)
teacher = nn.Sequential(nn.Linear(196, 128), nn.ReLU(), nn.Linear(128, 10))
opt = torch.optim.Adam(teacher.parameters(), lr=2e-3)
for _ in range(8):
    for idx in torch.randperm(len(X)).split(100):
        opt.zero_grad()
        nn.functional.cross_entropy(teacher(X[idx]), Y[idx]).backward()
        opt.step()
with torch.no_grad():
    logits = teacher(X[:3000]).numpy()
order = {"ok": np.arange(3000), "bug": np.random.default_rng(1).permutation(3000)}
for name in ("bug", "ok"):
    d = os.path.join(HERE, name)
    os.makedirs(d, exist_ok=True)
    np.savez(os.path.join(d, "transfer.npz"), x=x[:3000], y=y[:3000])
    np.savez(os.path.join(d, "test.npz"), x=xt, y=yt)
    np.save(os.path.join(d, "teacher_logits.npy"), logits[order[name]])
