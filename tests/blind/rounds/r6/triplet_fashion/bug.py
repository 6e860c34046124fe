import os
import gzip
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

ROOT = os.environ["TRUELOOP_DATA"] + "/fashion-mnist/"
MARGIN, DIM, P, K = 0.2, 16, 10, 8
STEPS, LR = 350, 1e-3


def read(split, n):
    with gzip.open(f"{ROOT}{split}-images-idx3-ubyte.gz") as f:
        f.read(16)
        x = np.frombuffer(f.read(n * 784), np.uint8).reshape(n, 784)
    with gzip.open(f"{ROOT}{split}-labels-idx1-ubyte.gz") as f:
        f.read(8)
        y = np.frombuffer(f.read(n), np.uint8)
    return torch.from_numpy(x.astype(np.float32) / 255), torch.from_numpy(y.astype(np.int64))


torch.manual_seed(0)
rng = np.random.default_rng(0)
x_tr, y_tr = read("train", 3000)
x_te, y_te = read("t10k", 1000)
mean, std = x_tr.mean(), x_tr.std()
x_tr, x_te = (x_tr - mean) / std, (x_te - mean) / std
by_class = [np.flatnonzero(y_tr.numpy() == c) for c in range(10)]

encoder = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, DIM))
opt = torch.optim.Adam(encoder.parameters(), lr=LR)


def embed(x):
    return F.normalize(encoder(x), dim=1)


def pairwise(z):
    sq = (2 - 2 * z @ z.t()).clamp(min=1e-8)
    return sq.sqrt()


def mined_triplets(z, y):
    d = pairwise(z)
    same = y[:, None] == y[None, :]
    d_pos = d.masked_fill(~same, 0.0).sum(dim=1) / (K - 1)
    d_neg = d.masked_fill(same, 0.0).min(dim=1).values
    return F.relu(d_pos - d_neg + MARGIN).mean(), (d_pos < d_neg).float().mean()


@torch.no_grad()
def recall_at_1():
    encoder.eval()
    gallery, query = embed(x_tr), embed(x_te)
    hit = y_tr[(query @ gallery.t()).argmax(1)] == y_te
    spread = query.std(0).mean()
    return hit.float().mean().item(), spread.item()


print("recall@1 before training %.3f" % recall_at_1()[0])
log = []
for step in range(1, STEPS + 1):
    encoder.train()
    idx = np.concatenate([rng.choice(by_class[c], K, replace=False) for c in range(P)])
    xb, yb = x_tr[idx], y_tr[idx]
    loss, frac = mined_triplets(embed(xb), yb)
    opt.zero_grad()
    loss.backward()
    opt.step()
    log.append((loss.item(), frac.item()))
    if step % 50 == 0:
        l, f = np.mean(log[-50:], axis=0)
        r1, spread = recall_at_1()
        print(f"step {step:4d}  loss {l:.4f}  ordered {f:.3f}  recall@1 {r1:.3f}  emb std {spread:.3f}")

torch.save({"encoder": encoder.state_dict(), "mean": mean, "std": std}, "/tmp/fashion_embed.pt")
print("final recall@1 %.3f" % recall_at_1()[0])
