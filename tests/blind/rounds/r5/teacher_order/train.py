"""Compress the clothing classifier FOLDER/teacher.pt into a small student."""
import gzip
import os
import sys
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

ROOT = os.environ["TRUELOOP_DATA"] + "/fashion-mnist/t10k-"
FIRST, TRAIN, VALID = 4000, 2400, 600
ALPHA, T = 0.7, 3.0


def load():
    stop = FIRST + TRAIN + VALID
    with gzip.open(ROOT + "images-idx3-ubyte.gz") as f:
        x = np.frombuffer(f.read(16 + 784 * stop), np.uint8, offset=16)[784 * FIRST:]
    with gzip.open(ROOT + "labels-idx1-ubyte.gz") as f:
        y = np.frombuffer(f.read(8 + stop), np.uint8, offset=8)[FIRST:]
    x = x.reshape(-1, 14, 2, 14, 2).mean((2, 4)).reshape(-1, 196) / 255
    x, y = torch.tensor((x - 0.286) / 0.32, dtype=torch.float32), torch.tensor(y, dtype=torch.long)
    return x[:TRAIN], y[:TRAIN], x[TRAIN:], y[TRAIN:]


def load_teacher(path):
    teacher = nn.Sequential(nn.Linear(196, 96), nn.ReLU(), nn.Linear(96, 10))
    teacher.load_state_dict(torch.load(path, weights_only=True))
    return teacher.eval().requires_grad_(False)


def distillation_loss(student_logits, teacher_logits, labels):
    soft = F.kl_div(F.log_softmax(student_logits / T, 1), F.softmax(teacher_logits / T, 1), reduction="batchmean") * T * T
    return ALPHA * soft + (1 - ALPHA) * F.cross_entropy(student_logits, labels)


def main(folder):
    torch.manual_seed(57)
    x_train, y_train, x_valid, y_valid = load()
    teacher = load_teacher(os.path.join(folder, "teacher.pt"))
    student = nn.Sequential(nn.Linear(196, 16), nn.ReLU(), nn.Linear(16, 10))
    optimizer = torch.optim.Adam(student.parameters(), lr=3e-3)
    for epoch in range(8):
        student.train()
        total = 0.0
        for idx in torch.randperm(len(x_train)).split(48):
            with torch.no_grad():
                guide = teacher(x_train[idx])
            optimizer.zero_grad()
            loss = distillation_loss(student(x_train[idx]), guide, y_train[idx])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
        student.eval()
        with torch.no_grad():
            acc = (student(x_valid).argmax(1) == y_valid).float().mean().item()
        print(f"epoch {epoch} loss {total / len(x_train):.4f} student valid acc {acc:.3f}")
    print(f"student valid accuracy {acc:.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
