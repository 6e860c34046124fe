# Active learning: label 40 garments, then ask for 40 more per round where the margin is smallest.
import gzip
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

DATA = os.environ["TRUELOOP_DATA"] + "/fashion-mnist/"


def read(stem, n):
    img = np.frombuffer(gzip.open(DATA + stem + "-images-idx3-ubyte.gz").read(16 + 784 * n), np.uint8, offset=16)
    lab = np.frombuffer(gzip.open(DATA + stem + "-labels-idx1-ubyte.gz").read(8 + n), np.uint8, offset=8)
    x = torch.tensor(img.reshape(-1, 1, 28, 28), dtype=torch.float32) / 255
    return F.avg_pool2d(x, 2), torch.tensor(lab, dtype=torch.long)


def fresh_model():
    return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(16, 24, 3, padding=1), nn.ReLU(), nn.Flatten(),
                         nn.Dropout(0.3), nn.Linear(24 * 49, 10))


def fit(model, x, y, updates=140, batch=32):
    model.train()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    last = []
    order = torch.randperm(len(y))
    at = 0
    for _ in range(updates):
        if at + batch > len(order):
            order, at = torch.randperm(len(y)), 0
        idx = order[at:at + batch]
        at += batch
        opt.zero_grad()
        loss = F.cross_entropy(model(x[idx]), y[idx])
        loss.backward()
        opt.step()
        last.append(loss.item())
    return float(np.mean(last[-20:]))


@torch.no_grad()
def margins(model, x):
    model.eval()
    p = torch.cat([model(c).softmax(1) for c in x.split(500)])
    top = p.topk(2, dim=1).values
    return top[:, 0] - top[:, 1]


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    return torch.cat([model(c).argmax(1) for c in x.split(500)]).eq(y).float().mean().item()


def main(rounds=8, ask=40, seed=2):
    torch.manual_seed(seed)
    x_pool, y_pool = read("train", 3000)
    x_test, y_test = read("t10k", 2000)
    start = torch.randperm(len(x_pool))[:ask]
    x_lab, y_lab = x_pool[start], y_pool[start]
    keep = torch.ones(len(x_pool), dtype=torch.bool)
    keep[start] = False
    x_pool, y_pool = x_pool[keep], y_pool[keep]

    for r in range(rounds):
        model = fresh_model()
        loss = fit(model, x_lab, y_lab)
        print(f"round {r}: {len(y_lab)} labels, pool {len(x_pool)}, loss {loss:.3f}")
        # candidates: a random half of the pool, then the smallest margins among them
        subset = torch.randperm(len(x_pool))[:len(x_pool) // 2]
        pick = subset[margins(model, x_pool[subset]).argsort()[:ask]]
        x_lab = torch.cat([x_lab, x_pool[pick]])
        y_lab = torch.cat([y_lab, y_pool[pick]])
        keep = torch.ones(len(x_pool), dtype=torch.bool)
        keep[pick] = False
        x_pool, y_pool = x_pool[keep], y_pool[keep]

    model = fresh_model()
    loss = fit(model, x_lab, y_lab, updates=300)
    print(f"final: {len(y_lab)} labels, loss {loss:.3f}")
    print(f"test accuracy {accuracy(model, x_test, y_test):.4f}")


main()
