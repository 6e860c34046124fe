import copy
import math
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(27)


def moons(n, noise=0.12):
    y = torch.arange(n) % 2
    a = math.pi * torch.rand(n)
    x = torch.stack([a.cos(), a.sin()], 1)
    x = torch.where(y[:, None] == 1, torch.tensor([1.0, 0.5]) - x, x)
    return (x - torch.tensor([0.5, 0.25])) * 1.5 + noise * torch.randn(n, 2), y


class MeanTeacher:
    def __init__(self, student, keep):
        self.student, self.keep = student, keep
        self.teacher = copy.deepcopy(student).requires_grad_(False)

    @torch.no_grad()
    def follow(self):
        for old, new in zip(self.teacher.parameters(), self.student.parameters()):
            old.lerp_(new, 1 - self.keep)

    def consistency(self, x):
        with torch.no_grad():
            goal = self.teacher(x + 0.1 * torch.randn_like(x)).softmax(-1)
        return F.mse_loss(self.student(x + 0.1 * torch.randn_like(x)).softmax(-1), goal)

    def accuracy(self, x, y):
        with torch.no_grad():
            return (self.teacher(x).argmax(-1) == y).float().mean().item()


def ramp(step, length=150):
    return math.exp(-5 * (1 - min(step, length) / length) ** 2)


student = nn.Sequential(nn.Linear(2, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 2))
pair = MeanTeacher(student, keep=0.97)
optimizer = torch.optim.Adam(student.parameters(), lr=4e-3)
few_x, few_y = moons(40)
many_x, _ = moons(2000)
valid_x, valid_y = moons(600)

for step in range(1, 381):
    part = torch.randint(0, len(many_x), (100,))
    supervised = F.cross_entropy(student(few_x), few_y)
    unsupervised = pair.consistency(many_x[part])
    loss = supervised + 5.0 * ramp(step) * unsupervised
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    pair.follow()
    if step % 60 == 0 or step == 380:
        acc = pair.accuracy(valid_x, valid_y)
        print(f"step {step} supervised {supervised.item():.4f} consistency {unsupervised.item():.5f} teacher valid {acc:.3f}")
