"""Distil a large digit classifier into a small one with teacher outputs computed once."""
import os
import argparse
import gzip
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

ROOT = os.environ["TRUELOOP_DATA"] + "/mnist/"


def load(split, count):
    with gzip.open(f"{ROOT}{split}-images-idx3-ubyte.gz") as fh:
        x = np.frombuffer(fh.read(16 + 784 * count), np.uint8, offset=16).reshape(-1, 784)
    with gzip.open(f"{ROOT}{split}-labels-idx1-ubyte.gz") as fh:
        y = np.frombuffer(fh.read(8 + count), np.uint8, offset=8)
    return torch.from_numpy(x.copy()).float() / 255, torch.from_numpy(y.copy()).long()


class Digits(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return i, self.x[i], self.y[i]


def make_teacher():
    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))


def make_student():
    return nn.Sequential(nn.Linear(784, 24), nn.ReLU(), nn.Linear(24, 10))


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    hits = sum((model(x).argmax(1) == y).sum().item() for _, x, y in loader)
    return hits / len(loader.dataset)


@torch.no_grad()
def teacher_outputs(teacher, dataset):
    teacher.eval()
    return torch.cat([teacher(x) for _, x, _ in DataLoader(dataset, batch_size=256)])


def train_teacher(teacher, loader, epochs):
    optimizer = torch.optim.Adam(teacher.parameters(), lr=1e-3)
    for _ in range(epochs):
        teacher.train()
        for _, x, y in loader:
            loss = F.cross_entropy(teacher(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def distil(student, logits, loader, val_loader, args):
    optimizer = torch.optim.Adam(student.parameters(), lr=2e-3)
    T = args.temperature
    for epoch in range(args.epochs):
        student.train()
        soft_sum = hard_sum = 0.0
        for step, (idx, x, y) in enumerate(loader):
            target = logits[idx]
            out = student(x)
            soft = F.kl_div(F.log_softmax(out / T, 1), F.softmax(target / T, 1), reduction="batchmean") * T * T
            hard = F.cross_entropy(out, y)
            loss = args.alpha * soft + (1 - args.alpha) * hard
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            soft_sum += soft.item()
            hard_sum += hard.item()
        n = len(loader)
        print(f"epoch {epoch}  soft {soft_sum / n:.4f}  hard {hard_sum / n:.4f}  val acc {accuracy(student, val_loader):.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--alpha", type=float, default=0.7)
    parser.add_argument("--temperature", type=float, default=3.0)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=100)
    args = parser.parse_args()

    torch.manual_seed(5)
    train_set, val_set = Digits(*load("train", 5000)), Digits(*load("t10k", 2000))
    loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=500)

    teacher = make_teacher()
    train_teacher(teacher, loader, 5)
    print(f"teacher val acc {accuracy(teacher, val_loader):.4f}")
    logits = teacher_outputs(teacher, train_set)

    student = make_student()
    distil(student, logits, loader, val_loader, args)
    print(f"student val acc {accuracy(student, val_loader):.4f}")


if __name__ == "__main__":
    main()
