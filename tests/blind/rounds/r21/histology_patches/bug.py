import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

# Tissue patch classifier: glands / lymphocytes / stroma on H&E-like RGB patches.

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--lr", type=float, default=2e-3)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--n-train", type=int, default=1000)
parser.add_argument("--n-val", type=int, default=400)
parser.add_argument("--seed", type=int, default=3)
args = parser.parse_args()

torch.manual_seed(args.seed)
rng = np.random.default_rng(args.seed)
SIZE = 36
yy, xx = np.mgrid[0:SIZE, 0:SIZE]
EOSIN = np.array([0.90, 0.62, 0.76])
HEMATOXYLIN = np.array([0.38, 0.28, 0.62])


def density(kind):
    """Amount of hematoxylin at each pixel."""
    d = np.zeros((SIZE, SIZE))
    if kind == 0:                       # gland: ring of nuclei around a lumen
        for _ in range(2):
            cy, cx, r = rng.uniform(8, SIZE - 8), rng.uniform(8, SIZE - 8), rng.uniform(5, 7.5)
            dist = np.hypot(yy - cy, xx - cx)
            d = np.maximum(d, np.exp(-((dist - r) / 1.1) ** 2))
    elif kind == 1:                     # lymphocytes: small round dots
        for _ in range(rng.integers(7, 11)):
            cy, cx = rng.uniform(2, SIZE - 2, 2)
            dist = np.hypot(yy - cy, xx - cx)
            d = np.maximum(d, np.exp(-(dist / 2.0) ** 2))
    else:                               # stroma: thin elongated nuclei, any direction
        angle = rng.uniform(0, np.pi)
        for _ in range(rng.integers(4, 7)):
            cy, cx = rng.uniform(4, SIZE - 4, 2)
            u = (xx - cx) * np.cos(angle) + (yy - cy) * np.sin(angle)
            v = -(xx - cx) * np.sin(angle) + (yy - cy) * np.cos(angle)
            d = np.maximum(d, np.exp(-(u / 6.5) ** 2 - (v / 1.0) ** 2))
    return d


def patch(kind):
    d = density(kind)[..., None] * rng.uniform(0.6, 1.0)
    rgb = EOSIN * (1 - d) + HEMATOXYLIN * d
    rgb = rgb * rng.uniform(0.85, 1.1, 3) + rng.normal(0, 0.07, (SIZE, SIZE, 3))
    return np.clip(rgb * 255, 0, 255).astype(np.uint8)


def build(n):
    labels = rng.integers(0, 3, n)
    images = np.stack([patch(k) for k in labels])
    return images, labels


def to_tensor(images):
    x = torch.from_numpy(images).float() / 255
    x = x.reshape(-1, 3, SIZE, SIZE)
    return x.contiguous()


def conv_block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(), nn.MaxPool2d(2))


tr_img, tr_y = build(args.n_train)
va_img, va_y = build(args.n_val)
x_train, x_val = to_tensor(tr_img), to_tensor(va_img)
y_train, y_val = torch.from_numpy(tr_y), torch.from_numpy(va_y)
mean = x_train.mean((0, 2, 3), keepdim=True)
std = x_train.std((0, 2, 3), keepdim=True)
x_train, x_val = (x_train - mean) / std, (x_val - mean) / std

net = nn.Sequential(
    conv_block(3, 16), conv_block(16, 24), conv_block(24, 32),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.1), nn.Linear(32, 3),
)
optimizer = torch.optim.AdamW(net.parameters(), lr=args.lr, weight_decay=1e-3)


def accuracy():
    net.eval()
    with torch.no_grad():
        guess = torch.cat([net(part).argmax(1) for part in x_val.split(200)])
    return (guess == y_val).float().mean().item()


for epoch in range(args.epochs):
    net.train()
    total = 0.0
    order = torch.randperm(len(x_train))
    for idx in order.split(args.batch_size):
        xb, yb = x_train[idx], y_train[idx]
        if torch.rand(()) < 0.5:
            xb = xb.flip(3)
        loss = F.cross_entropy(net(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(idx)
    print(f"[{epoch + 1}/{args.epochs}] train loss {total / len(x_train):.4f}  val acc {accuracy():.4f}")

print(f"validation accuracy {accuracy():.4f}")
