"""Distil a heart sound classifier (normal / systolic / diastolic / continuous murmur) into a wearable-size model."""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

LENGTH = 256
CLASSES = ["normal", "systolic", "diastolic", "continuous"]


@dataclass
class Config:
    seed: int = 5
    teacher_epochs: int = 7
    student_epochs: int = 14
    batch_size: int = 64
    temperature: float = 3.0
    alpha: float = 0.9
    lr: float = 3e-3


def synth_cycle(rng, label):
    t = np.arange(LENGTH)
    s1 = rng.integers(15, 50)
    s2 = s1 + rng.integers(65, 90)
    x = rng.normal(0, 0.25, LENGTH)
    x += 1.5 * np.exp(-0.5 * ((t - s1) / 6) ** 2) * np.sin(0.7 * (t - s1))
    x += 1.2 * np.exp(-0.5 * ((t - s2) / 5) ** 2) * np.sin(0.9 * (t - s2))
    amp = rng.uniform(0.25, 0.6)
    noise = rng.normal(0, 1, LENGTH)
    noise = noise - np.convolve(noise, np.ones(5) / 5, mode="same")
    gate = np.zeros(LENGTH)
    if label in (1, 3):
        gate[s1 + 12:s2 - 8] = 1
    if label in (2, 3):
        gate[s2 + 12:s2 + 85] = 1
    return (x + amp * gate * noise).astype(np.float32)


def make_split(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, len(CLASSES), n)
    x = np.stack([synth_cycle(rng, c) for c in y])
    return torch.from_numpy(x).unsqueeze(1), torch.from_numpy(y)


class Cycles(Dataset):
    def __init__(self, x, y, soft=None):
        self.x, self.y, self.soft = x, y, soft

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        if self.soft is None:
            return self.x[i], self.y[i]
        return self.x[i], self.y[i], self.soft[i]


def conv_net(width, classes=len(CLASSES)):
    def block(i, o, k):
        return [nn.Conv1d(i, o, k, padding=k // 2), nn.BatchNorm1d(o), nn.ReLU(), nn.MaxPool1d(4)]
    return nn.Sequential(*block(1, width, 7), *block(width, 2 * width, 5), *block(2 * width, 2 * width, 3),
                         nn.Flatten(), nn.Linear(2 * width * LENGTH // 64, classes))


def train_teacher(cfg, x, y):
    net = conv_net(24)
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    loader = DataLoader(Cycles(x, y), batch_size=cfg.batch_size, shuffle=True)
    for epoch in range(cfg.teacher_epochs):
        net.train()
        for xb, yb in loader:
            loss = F.cross_entropy(net(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
    return net


@torch.no_grad()
def cache_logits(teacher, x, y, cfg):
    teacher.eval()
    loader = DataLoader(Cycles(x, y), batch_size=cfg.batch_size, shuffle=True)
    return torch.cat([teacher(xb) for xb, _ in loader])


def distil_loss(student_logits, teacher_logits, y, cfg):
    t = cfg.temperature
    soft = F.kl_div(F.log_softmax(student_logits / t, 1), F.softmax(teacher_logits / t, 1),
                    reduction="batchmean") * t * t
    return cfg.alpha * soft + (1 - cfg.alpha) * F.cross_entropy(student_logits, y)


@torch.no_grad()
def accuracy(net, x, y):
    net.eval()
    return (net(x).argmax(1) == y).float().mean().item()


def main(cfg):
    torch.manual_seed(cfg.seed)
    x_teacher, y_teacher = make_split(2500, 1)
    x_tr, y_tr = make_split(1500, 2)
    x_va, y_va = make_split(500, 3)
    x_te, y_te = make_split(1500, 4)

    teacher = train_teacher(cfg, x_teacher, y_teacher)
    print(f"teacher valid acc {accuracy(teacher, x_va, y_va):.3f}")
    soft = cache_logits(teacher, x_tr, y_tr, cfg)

    student = conv_net(6)
    n_params = sum(p.numel() for p in student.parameters())
    print(f"student parameters: {n_params}")
    opt = torch.optim.Adam(student.parameters(), lr=cfg.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg.student_epochs)
    loader = DataLoader(Cycles(x_tr, y_tr, soft), batch_size=cfg.batch_size, shuffle=True)
    for epoch in range(cfg.student_epochs):
        student.train()
        total = 0.0
        for xb, yb, sb in loader:
            loss = distil_loss(student(xb), sb, yb, cfg)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        sched.step()
        print(f"epoch {epoch:02d} loss {total / len(loader):.3f} valid acc {accuracy(student, x_va, y_va):.3f}")
    print(f"student_test_acc {accuracy(student, x_te, y_te):.4f}")


if __name__ == "__main__":
    main(Config())
