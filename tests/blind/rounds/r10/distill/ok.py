"""Distil a wide MNIST teacher into a small student; the pool itself is unlabelled."""
import copy
import gzip
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

ROOT = os.path.join(os.environ["TRUELOOP_DATA"], "mnist")


def images(name, n, skip=0):
    with gzip.open(os.path.join(ROOT, name), "rb") as fh:
        fh.read(16 + skip * 784)
        raw = np.frombuffer(fh.read(n * 784), dtype=np.uint8)
    return (torch.from_numpy(raw.copy()).float().view(n, 784) / 255 - 0.1307) / 0.3081


def labels(name, n, skip=0):
    with gzip.open(os.path.join(ROOT, name), "rb") as fh:
        fh.read(8 + skip)
        return torch.from_numpy(np.frombuffer(fh.read(n), dtype=np.uint8).astype(np.int64))


class Pool(Dataset):
    """Pictures with their position in the pool."""

    def __init__(self, x):
        self.x = x

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"x": self.x[i], "index": i}


def mlp(*sizes):
    mods = []
    for a, b in zip(sizes[:-2], sizes[1:-1]):
        mods += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*mods, nn.Linear(sizes[-2], sizes[-1]))


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    return (model(x).argmax(1) == y).float().mean().item()


def train_teacher(x, y, epochs=6):
    model = mlp(784, 256, 128, 10)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(epochs):
        model.train()
        for idx in torch.randperm(len(x)).split(64):
            loss = F.cross_entropy(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
    return model


@torch.no_grad()
def teacher_logits(teacher, loader):
    teacher.eval()
    return torch.cat([teacher(batch["x"]) for batch in loader])


@torch.no_grad()
def update_ema(ema, model, decay):
    for e, p in zip(ema.parameters(), model.parameters()):
        e.lerp_(p, 1 - decay)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(12)
    x_lab = images("train-images-idx3-ubyte.gz", 5000)
    y_lab = labels("train-labels-idx1-ubyte.gz", 5000)
    x_pool = images("train-images-idx3-ubyte.gz", 6000, skip=5000)
    x_val = images("t10k-images-idx3-ubyte.gz", 2000)
    y_val = labels("t10k-labels-idx1-ubyte.gz", 2000)

    teacher = train_teacher(x_lab, y_lab)
    print(f"teacher val acc {accuracy(teacher, x_val, y_val):.4f}")

    pool = Pool(x_pool)
    pool_loader = DataLoader(pool, batch_size=100, shuffle=True)
    cache_loader = DataLoader(pool, batch_size=250, shuffle=False)
    soft = teacher_logits(teacher, cache_loader)

    student = mlp(784, 32, 10)
    ema = copy.deepcopy(student).requires_grad_(False)
    opt = torch.optim.Adam(student.parameters(), lr=2e-3)
    temperature, hard_weight = 3.0, 0.1
    x_few, y_few = x_lab[:300], y_lab[:300]

    for epoch in range(8):
        student.train()
        losses = []
        for batch in pool_loader:
            out = student(batch["x"])
            log_p = F.log_softmax(out / temperature, dim=1)
            log_q = F.log_softmax(soft[batch["index"]] / temperature, dim=1)
            kd = F.kl_div(log_p, log_q, log_target=True, reduction="batchmean") * temperature ** 2
            pick = torch.randint(0, len(x_few), (32,))
            hard = F.cross_entropy(student(x_few[pick]), y_few[pick])
            loss = (1 - hard_weight) * kd + hard_weight * hard
            opt.zero_grad()
            loss.backward()
            opt.step()
            update_ema(ema, student, 0.98)
            losses.append(loss.item())
        print(f"epoch {epoch} loss {np.mean(losses):.4f} student val acc {accuracy(student, x_val, y_val):.4f} "
              f"ema val acc {accuracy(ema, x_val, y_val):.4f}")


if __name__ == "__main__":
    main()
