"""Batch-hard triplet embedding on handwritten digits, scored by nearest-neighbour retrieval."""
import gzip
import os
import sys

import numpy as np
import torch
import torch.nn as nn

root = os.path.join(os.environ["TRUELOOP_DATA"], "mnist")
SEED, P, K, MARGIN = 8, 10, 6, 0.3


def read(prefix, n):
    files = {f.split("-idx")[0]: os.path.join(root, f) for f in os.listdir(root)}
    with gzip.open(files[prefix + "-images"]) as f:
        x = np.frombuffer(f.read(16 + n * 784), np.uint8, offset=16).reshape(n, 1, 28, 28)
    with gzip.open(files[prefix + "-labels"]) as f:
        y = np.frombuffer(f.read(8 + n), np.uint8, offset=8)
    return torch.tensor(x / 255.0, dtype=torch.float32), torch.tensor(y.astype(np.int64))


class Embedder(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Flatten(), nn.Linear(32 * 49, dim))

    def forward(self, x):
        return nn.functional.normalize(self.features(x), dim=1)


def batch_hard(z, y, margin):
    d = torch.cdist(z, z)
    same = y[:, None] == y[None, :]
    hardest_pos = (d * same).max(dim=1).values
    hardest_neg = d.masked_fill(same, float("inf")).min(dim=1).values
    return torch.relu(hardest_pos - hardest_neg + margin).mean()


def pk_batches(y, steps, rng):
    """P classes with K examples each."""
    by_class = [np.flatnonzero(y.numpy() == c) for c in range(10)]
    for _ in range(steps):
        classes = rng.permutation(10)[:P]
        yield torch.from_numpy(np.concatenate([rng.choice(by_class[c], K, replace=False) for c in classes]))


@torch.no_grad()
def recall_at_1(model, gallery, gy, query, qy):
    model.eval()
    g = torch.cat([model(b) for b in gallery.split(500)])
    q = torch.cat([model(b) for b in query.split(500)])
    model.train()
    nearest = torch.cdist(q, g).argmin(1)
    return (gy[nearest] == qy).float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    x, y = read("train", 8000)
    xt, yt = read("t10k", 3000)
    fit_x, fit_y, val_x, val_y = x[:7000], y[:7000], x[7000:], y[7000:]
    mean, std = fit_x.mean(), fit_x.std()
    fit_x, val_x, xt = [(t - mean) / std for t in (fit_x, val_x, xt)]

    net = Embedder()
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 600
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    sched = torch.optim.lr_scheduler.LinearLR(opt, 1.0, 0.1, total_iters=steps)
    avg = None
    for step, rows in enumerate(pk_batches(fit_y, steps, rng)):
        loss = batch_hard(net(fit_x[rows]), fit_y[rows], MARGIN)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        avg = loss.item() if avg is None else 0.97 * avg + 0.03 * loss.item()
        if step % 100 == 99:
            r1 = recall_at_1(net, fit_x[:2000], fit_y[:2000], val_x, val_y)
            print(f"step {step + 1} triplet {avg:.4f} val R@1 {r1:.4f}")
    print(f"test R@1 {recall_at_1(net, fit_x[:4000], fit_y[:4000], xt, yt):.4f}")
