import json
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

KEYWORDS = ["yes", "no", "up", "down", "stop"]


class Teacher(nn.Module):
    def __init__(self, d, classes):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.l1 = nn.Linear(d, 128)
        self.l2 = nn.Linear(128, 128)
        self.out = nn.Linear(128, classes)

    def forward(self, x):
        x = torch.relu(self.l1(self.norm(x)))
        return self.out(torch.relu(self.l2(x)))


class Student(nn.Module):
    def __init__(self, d, classes):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.body = nn.Sequential(nn.Linear(d, 24), nn.ReLU(), nn.Linear(24, classes))

    def forward(self, x):
        return self.body(self.norm(x))


def read(folder):
    z = np.load(f"{folder}/commands.npz")
    return {k: torch.from_numpy(z[k]) for k in ("labelled", "target", "unlabelled", "valid", "valid_target")}


def distill_loss(student_logits, teacher_logits, temperature):
    p = F.softmax(teacher_logits / temperature, dim=1)
    return F.kl_div(F.log_softmax(student_logits / temperature, dim=1), p, reduction="batchmean") * temperature ** 2


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


def main(folder):
    with open(f"{folder}/distill.json") as fh:
        cfg = json.load(fh)
    torch.manual_seed(cfg["seed"])
    data = read(folder)
    d = data["valid"].shape[1]
    teacher = Teacher(d, len(KEYWORDS))
    teacher.load_state_dict(torch.load(f"{folder}/{cfg['teacher']}", weights_only=True))
    teacher.eval().requires_grad_(False)
    student = Student(d, len(KEYWORDS))
    opt = torch.optim.Adam(student.parameters(), lr=cfg["lr"])

    pool = data["unlabelled"]
    with torch.no_grad():
        soft = teacher(pool)
    for epoch in range(cfg["epochs"]):
        student.train()
        for idx in torch.randperm(len(pool)).split(cfg["batch"]):
            sup = torch.randint(len(data["target"]), (16,))
            loss = cfg["alpha"] * distill_loss(student(pool[idx]), soft[idx], cfg["temperature"])
            loss = loss + (1 - cfg["alpha"]) * F.cross_entropy(student(data["labelled"][sup]), data["target"][sup])
            opt.zero_grad()
            loss.backward()
            opt.step()
        if epoch % 3 == 2:
            print(f"epoch {epoch + 1} loss {loss.item():.4f} student {evaluate(student, data['valid'], data['valid_target']):.4f}")
    print(f"student accuracy {evaluate(student, data['valid'], data['valid_target']):.4f}")


if __name__ == "__main__":
    main(sys.argv[1])
