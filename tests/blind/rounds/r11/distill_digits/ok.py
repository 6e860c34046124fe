"""Distil a digit CNN into a small MLP; only part of the transfer images carry labels."""
import gzip
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

ROOT = os.path.join(os.environ["TRUELOOP_DATA"], "mnist")
T, ALPHA = 3.0, 0.7


def idx(name, header, count):
    path = next(os.path.join(ROOT, f) for f in sorted(os.listdir(ROOT)) if f.startswith(name))
    with gzip.open(path) as f:
        return np.frombuffer(f.read(header + count), np.uint8, offset=header)


def images(name, count):
    return torch.from_numpy(idx(name, 16, count * 784).reshape(-1, 1, 28, 28).astype(np.float32) / 255 - 0.13)


def labels(name, count):
    return torch.from_numpy(idx(name, 8, count).astype(np.int64))


class Transfer(Dataset):
    """Yields image, label, whether the label is known, and the row number."""

    def __init__(self, x, y, known):
        self.x, self.y, self.known = x, y, known

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i], self.known[i], i


def teacher_net():
    return nn.Sequential(nn.Conv2d(1, 12, 5, stride=2), nn.ReLU(), nn.Conv2d(12, 24, 5, stride=2), nn.ReLU(),
                         nn.Flatten(), nn.Linear(24 * 16, 10))


def student_net():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 40), nn.ReLU(), nn.Linear(40, 10))


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    acc = (model(x).argmax(1) == y).float().mean().item()
    model.train()
    return acc


def fit_teacher(x, y, epochs=4):
    net = teacher_net()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for _ in range(epochs):
        for b in torch.randperm(len(y)).split(64):
            loss = F.cross_entropy(net(x[b]), y[b])
            opt.zero_grad()
            loss.backward()
            opt.step()
    return net.eval().requires_grad_(False)


@torch.no_grad()
def cache_logits(teacher, loader):
    """One pass of the teacher, so that it need not be run every epoch."""
    return torch.cat([teacher(batch[0]) for batch in loader])


def main():
    torch.manual_seed(3)
    x, y = images("train-images", 13000), labels("train-labels", 13000)
    xt, yt = images("t10k-images", 4000), labels("t10k-labels", 4000)
    teacher = fit_teacher(x[:6000], y[:6000])
    print(f"teacher val {accuracy(teacher, x[12000:], y[12000:]):.4f}")

    xs, ys = x[6000:12000], y[6000:12000]
    known = torch.zeros(len(ys), dtype=torch.bool)
    known[torch.randperm(len(ys))[:600]] = True
    data = Transfer(xs, ys, known)
    loader = DataLoader(data, batch_size=64, shuffle=True)
    soft = cache_logits(teacher, DataLoader(data, batch_size=256))

    student = student_net()
    opt = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.MultiStepLR(opt, [6, 9], 0.3)
    for epoch in range(11):
        tot_kd = tot_ce = 0.0
        for xb, yb, kb, ib in loader:
            out = student(xb)
            kd = F.kl_div(F.log_softmax(out / T, 1), F.softmax(soft[ib] / T, 1), reduction="batchmean") * T * T
            ce = F.cross_entropy(out[kb], yb[kb]) if kb.any() else out.sum() * 0
            loss = ALPHA * kd + (1 - ALPHA) * ce
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot_kd += kd.item() / len(loader)
            tot_ce += ce.item() / len(loader)
        sched.step()
        print(f"epoch {epoch:2d} kd {tot_kd:.3f} ce {tot_ce:.3f} val {accuracy(student, x[12000:], y[12000:]):.4f}")
    print(f"test accuracy {accuracy(student, xt, yt):.4f}")


if __name__ == "__main__":
    main()
