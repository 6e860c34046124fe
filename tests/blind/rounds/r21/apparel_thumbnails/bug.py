import gzip
import os
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import ExponentialLR

ROOT = Path(os.environ["TRUELOOP_DATA"]) / "fashion-mnist"
CONFIG = dict(n_train=3500, n_test=1000, batch_size=50, epochs=5, lr=0.05, momentum=0.9, gamma=0.75, seed=5)


def read_images(name, limit):
    with gzip.open(ROOT / name) as f:
        head = np.frombuffer(f.read(16), dtype=">i4")
        raw = f.read(limit * int(head[2]) * int(head[3]))
    arr = np.frombuffer(raw, dtype=np.uint8).reshape(limit, 1, int(head[2]), int(head[3]))
    return torch.from_numpy(arr.astype(np.float32) / 255.0)


def read_labels(name, limit):
    with gzip.open(ROOT / name) as f:
        f.read(8)
        return torch.from_numpy(np.frombuffer(f.read(limit), dtype=np.uint8).astype(np.int64))


def build_net():
    return nn.Sequential(
        nn.Conv2d(1, 10, 5, stride=2, padding=2), nn.BatchNorm2d(10), nn.ReLU(),
        nn.Conv2d(10, 20, 3, padding=1), nn.BatchNorm2d(20), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.2),
        nn.Linear(20 * 7 * 7, 64), nn.ReLU(), nn.Linear(64, 10),
    )


def batches(x, y, size, gen):
    order = torch.randperm(len(x), generator=gen)
    for part in order.split(size):
        xb = x[part]
        flip = torch.rand(len(part), generator=gen) < 0.5
        xb[flip] = xb[flip].flip(-1)
        yield xb, y[part]


def test_accuracy(net, x, y):
    net.eval()
    with torch.inference_mode():
        pred = torch.cat([net(part).argmax(1) for part in x.split(500)])
    return (pred == y).float().mean().item()


def main(cfg):
    torch.manual_seed(cfg["seed"])
    gen = torch.Generator().manual_seed(cfg["seed"])
    x_tr = read_images("train-images-idx3-ubyte.gz", cfg["n_train"])
    y_tr = read_labels("train-labels-idx1-ubyte.gz", cfg["n_train"])
    x_te = read_images("t10k-images-idx3-ubyte.gz", cfg["n_test"])
    y_te = read_labels("t10k-labels-idx1-ubyte.gz", cfg["n_test"])
    mean, std = x_tr.mean(), x_tr.std()
    x_tr, x_te = (x_tr - mean) / std, (x_te - mean) / std

    net = build_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=cfg["lr"], momentum=cfg["momentum"], weight_decay=1e-4)
    # three quarters of the learning rate after each pass over the data
    scheduler = ExponentialLR(optimizer, gamma=cfg["gamma"])

    for epoch in range(cfg["epochs"]):
        net.train()
        seen, total = 0, 0.0
        for xb, yb in batches(x_tr, y_tr, cfg["batch_size"], gen):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(xb), yb)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(yb)
            seen += len(yb)
            scheduler.step()
        print(f"epoch {epoch + 1}/{cfg['epochs']} loss {total / seen:.3f} "
              f"test acc {test_accuracy(net, x_te, y_te):.4f}")
    print(f"test accuracy: {test_accuracy(net, x_te, y_te):.4f}")


if __name__ == "__main__":
    main(CONFIG)
