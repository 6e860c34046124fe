"""Student from cached teacher logits plus a few hard labels."""
import argparse
import os
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F


class Student(nn.Module):
    def __init__(self, width=20):
        super().__init__()
        self.a = nn.Linear(196, width)
        self.b = nn.Linear(width, 10)

    def forward(self, x):
        return self.b(F.relu(self.a(x)))


def kd_loss(student, teacher, T):
    return F.kl_div(F.log_softmax(student / T, 1), F.softmax(teacher / T, 1), reduction="batchmean") * T * T


def npz(folder, name):
    z = np.load(os.path.join(folder, name))
    return torch.from_numpy(z["x"]).float() / 255, torch.from_numpy(z["y"])


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("folder")
    ap.add_argument("--T", type=float, default=3.0)
    ap.add_argument("--alpha", type=float, default=0.8)
    ap.add_argument("--epochs", type=int, default=12)
    args = ap.parse_args()
    torch.manual_seed(5)
    x, y = npz(args.folder, "transfer.npz")
    xt, yt = npz(args.folder, "test.npz")
    soft = torch.from_numpy(np.load(os.path.join(args.folder, "teacher_logits.npy")))
    student = Student()
    opt = torch.optim.AdamW(student.parameters(), lr=3e-3)
    for epoch in range(args.epochs):
        student.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(60):
            out = student(x[idx])
            loss = args.alpha * kd_loss(out, soft[idx], args.T) + (1 - args.alpha) * F.cross_entropy(out, y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        print(f"epoch {epoch} loss {total / len(x):.4f}")
    student.eval()
    with torch.no_grad():
        print("final test nll", F.cross_entropy(student(xt), yt).item())


if __name__ == "__main__":
    main()
