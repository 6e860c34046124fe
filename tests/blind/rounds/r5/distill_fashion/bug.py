import gzip, os
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

ROOT = os.environ["TRUELOOP_DATA"] + "/fashion-mnist/t10k-"
TEMPERATURE, ALPHA, BATCH = 4.0, 0.9, 64


def load(n):
    with gzip.open(ROOT + "images-idx3-ubyte.gz") as f:
        x = np.frombuffer(f.read(16 + n * 784), np.uint8, offset=16).reshape(n, 14, 2, 14, 2).mean((2, 4))
    with gzip.open(ROOT + "labels-idx1-ubyte.gz") as f:
        y = np.frombuffer(f.read(8 + n), np.uint8, offset=8)
    x = torch.tensor(x.reshape(n, 196) / 255, dtype=torch.float32)
    return (x - 0.286) / 0.32, torch.tensor(y, dtype=torch.long)


def accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


def fit(model, x, y, loss_fn, epochs, lr, name):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for step, idx in enumerate(torch.randperm(len(x)).split(BATCH)):
            optimizer.zero_grad()
            loss = loss_fn(model(x[idx]), y[idx], idx, step)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
        print(f"{name} epoch {epoch} loss {total / len(x):.4f}")


def hard_loss(logits, y, idx, step):
    return F.cross_entropy(logits, y)


class DistillLoss:
    """Soft targets of the teacher are computed once for the whole training set."""

    def __init__(self, teacher, x):
        teacher.eval()
        with torch.no_grad():
            self.soft = F.softmax(teacher(x) / TEMPERATURE, dim=1)

    def __call__(self, logits, y, idx, step):
        soft = self.soft[step * BATCH:step * BATCH + len(y)]
        kd = F.kl_div(F.log_softmax(logits / TEMPERATURE, dim=1), soft, reduction="batchmean") * TEMPERATURE ** 2
        return ALPHA * kd + (1 - ALPHA) * F.cross_entropy(logits, y)


if __name__ == "__main__":
    torch.manual_seed(12)
    x, y = load(4000)
    x_train, y_train, x_valid, y_valid = x[:3200], y[:3200], x[3200:], y[3200:]
    teacher = nn.Sequential(nn.Linear(196, 128), nn.ReLU(), nn.Linear(128, 10))
    fit(teacher, x_train, y_train, hard_loss, 6, 2e-3, "teacher")
    print(f"teacher valid accuracy {accuracy(teacher, x_valid, y_valid):.3f}")
    student = nn.Sequential(nn.Linear(196, 12), nn.ReLU(), nn.Linear(12, 10))
    fit(student, x_train, y_train, DistillLoss(teacher, x_train), 8, 3e-3, "student")
    print(f"student valid accuracy {accuracy(student, x_valid, y_valid):.3f}")
