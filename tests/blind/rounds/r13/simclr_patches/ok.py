"""SimCLR-style pretraining on MNIST, judged by a linear probe."""
import gzip
import os
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

D = os.path.join(os.environ["TRUELOOP_DATA"], "mnist")


def read(kind, n):
    with gzip.open(f"{D}/{kind}-images-idx3-ubyte.gz") as f:
        x = np.frombuffer(f.read(16 + n * 784), np.uint8, offset=16).reshape(n, 28, 28)
    with gzip.open(f"{D}/{kind}-labels-idx1-ubyte.gz") as f:
        y = np.frombuffer(f.read(8 + n), np.uint8, offset=8).astype(np.int64)
    x = F.avg_pool2d(torch.from_numpy(x.astype(np.float32) / 255)[:, None], 2)
    return x, torch.from_numpy(y)


class Augment:
    """Random shift, erase and noise; one generator so that runs can be repeated."""

    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)

    def __call__(self, x):
        g = self.gen
        b = len(x)
        theta = torch.zeros(b, 2, 3)
        ang = (torch.rand(b, generator=g) - 0.5) * 0.7
        scale = 0.85 + 0.4 * torch.rand(b, generator=g)
        theta[:, 0, 0] = theta[:, 1, 1] = scale * ang.cos()
        theta[:, 0, 1] = -scale * ang.sin()
        theta[:, 1, 0] = scale * ang.sin()
        theta[:, :, 2] = (torch.rand(b, 2, generator=g) - 0.5) * 0.35
        out = F.grid_sample(x, F.affine_grid(theta, x.shape, align_corners=False), align_corners=False)
        return out + 0.1 * torch.randn(x.shape, generator=g)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(196, 128), nn.ReLU(), nn.Linear(128, 24), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 16))

    def forward(self, x):
        return F.normalize(self.head(self.body(x)), dim=1)


def info_nce(a, b, tau=0.2):
    logits = a @ b.T / tau
    target = torch.arange(len(a))
    return 0.5 * (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target))


def probe(enc, xtr, ytr, xte, yte):
    enc.eval()
    with torch.no_grad():
        f, ft = enc.body(xtr), enc.body(xte)
    mu, sd = f.mean(0), f.std(0) + 1e-5
    f, ft = (f - mu) / sd, (ft - mu) / sd
    lin = nn.Linear(f.shape[1], 10)
    opt = torch.optim.Adam(lin.parameters(), lr=0.05)
    for _ in range(200):
        opt.zero_grad()
        F.cross_entropy(lin(f), ytr).backward()
        opt.step()
    return (lin(ft).argmax(1) == yte).float().mean().item()


def main():
    torch.manual_seed(6)
    x, y = read("train", 3000)
    xte, yte = read("t10k", 1000)
    enc = Encoder()
    augment = Augment(6)
    opt = torch.optim.Adam(enc.parameters(), lr=2e-3)
    for epoch in range(10):
        enc.train()
        tot = 0.0
        for idx in torch.randperm(len(x)).split(125):
            loss = info_nce(enc(augment(x[idx])), enc(augment(x[idx])))
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item() / 24
        print(f"epoch {epoch} info-nce {tot:.4f}")
    print("final linear probe accuracy", probe(enc, x[:300], y[:300], xte, yte))


main()
