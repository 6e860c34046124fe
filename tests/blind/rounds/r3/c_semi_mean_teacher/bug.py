import argparse, os
import copy
import gzip

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

ap = argparse.ArgumentParser()
ap.add_argument("--root", default=os.environ["TRUELOOP_DATA"] + "/fashion-mnist")
ap.add_argument("--labelled", type=int, default=200)
ap.add_argument("--unlabelled", type=int, default=3000)
ap.add_argument("--steps", type=int, default=400)
ap.add_argument("--decay", type=float, default=0.97)
ap.add_argument("--consistency", type=float, default=4.0)
ap.add_argument("--ramp", type=int, default=120)
opt = ap.parse_args()
torch.manual_seed(10)


def images(split, n):
    with gzip.open(f"{opt.root}/{split}-images-idx3-ubyte.gz") as f:
        x = np.frombuffer(f.read(16 + 784 * n)[16:], np.uint8).reshape(n, 784).astype(np.float32)
    with gzip.open(f"{opt.root}/{split}-labels-idx1-ubyte.gz") as f:
        y = np.frombuffer(f.read(8 + n)[8:], np.uint8).astype(np.int64)
    return torch.from_numpy(x) / 255, torch.from_numpy(y)


def build():
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10))


def jitter(x):
    return x + 0.3 * torch.randn_like(x)


def update_teacher(teacher, student, decay):
    with torch.no_grad():
        for t, s in zip(teacher.parameters(), student.parameters()):
            t = decay * t + (1 - decay) * s


@torch.no_grad()
def accuracy(net, x, y):
    net.eval()
    return (net(x).argmax(1) == y).float().mean().item()


x, y = images("train", opt.labelled + opt.unlabelled)
test_x, test_y = images("t10k", 1500)
mean, std = x.mean(), x.std()
x, test_x = (x - mean) / std, (test_x - mean) / std
lab_x, lab_y, unl_x = x[: opt.labelled], y[: opt.labelled], x[opt.labelled:]

student = build()
teacher = copy.deepcopy(student)
for p in teacher.parameters():
    p.requires_grad_(False)
optimizer = torch.optim.Adam(student.parameters(), lr=1e-3, weight_decay=1e-4)
for step in range(1, opt.steps + 1):
    student.train()
    teacher.eval()
    li = torch.randint(0, len(lab_x), (32,))
    ui = torch.randint(0, len(unl_x), (96,))
    sup = F.cross_entropy(student(jitter(lab_x[li])), lab_y[li])
    with torch.no_grad():
        target = teacher(jitter(unl_x[ui])).softmax(1)
    pred = student(jitter(unl_x[ui])).softmax(1)
    cons = (pred - target).pow(2).sum(1).mean()
    weight = opt.consistency * min(1.0, step / opt.ramp)
    loss = sup + weight * cons
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    update_teacher(teacher, student, opt.decay)
    if step % 100 == 0:
        print(f"step {step} sup {sup.item():.3f} cons {cons.item():.4f} student {accuracy(student, test_x, test_y):.3f} teacher {accuracy(teacher, test_x, test_y):.3f}")
print(f"final test accuracy: student {accuracy(student, test_x, test_y):.3f} teacher {accuracy(teacher, test_x, test_y):.3f}")
