"""Semi-supervised leaf disease codes from spectra (mean teacher). disease_code < 0: not examined."""
import copy
import csv
import os
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

DATA = sys.argv[1]
STEPS, WARM, DECAY, MAX_W = 700, 250, 0.99, 4.0
torch.manual_seed(30)
rng = np.random.default_rng(30)


def read_labels(name):
    with open(os.path.join(DATA, name), newline="") as f:
        return torch.tensor([int(r["disease_code"]) for r in csv.DictReader(f)])


def read_spectra(name):
    return torch.from_numpy(np.load(os.path.join(DATA, name)))


def perturb(x):
    scale = 1 + 0.2 * torch.randn(len(x), 1)
    slope = 0.15 * torch.randn(len(x), 1) * torch.linspace(0, 1, x.size(1))
    return x * scale + slope + 0.1 * torch.randn_like(x)


class Net(nn.Module):
    def __init__(self, d, classes):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(1, 16, 7, padding=3), nn.ReLU(), nn.Conv1d(16, 16, 5, padding=2, stride=2), nn.ReLU())
        self.fc = nn.Sequential(nn.Flatten(), nn.Linear(16 * d // 2, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, classes))

    def forward(self, x):
        return self.fc(self.conv(x.unsqueeze(1)))


@torch.no_grad()
def ema_update(teacher, student, step):
    d = min(DECAY, 1 - 1 / (step + 1))
    for p, q in zip(teacher.parameters(), student.parameters()):
        p.mul_(d).add_(q, alpha=1 - d)


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    return (model(x).argmax(1) == y).float().mean().item()


x, y = read_spectra("spectra_train.npy"), read_labels("labels_train.csv")
x_test, y_test = read_spectra("spectra_test.npy"), read_labels("labels_test.csv")
examined = torch.where(y >= 0)[0].numpy()
rng.shuffle(examined)
n_val = len(examined) // 5
val_idx, lab_idx = torch.from_numpy(examined[:n_val]), torch.from_numpy(examined[n_val:])
keep = torch.ones(len(x), dtype=torch.bool)
keep[val_idx] = False
pool = x[keep]
mu, sd = pool.mean(), pool.std()
x, x_test, pool = (x - mu) / sd, (x_test - mu) / sd, (pool - mu) / sd
classes = int(y.max()) + 1
print(f"{len(lab_idx)} labelled, {len(val_idx)} validation, {len(pool)} in the pool, {classes} codes")

student = Net(x.size(1), classes)
teacher = copy.deepcopy(student).requires_grad_(False)
opt = torch.optim.Adam(student.parameters(), lr=1e-3, weight_decay=1e-4)
for step in range(1, STEPS + 1):
    student.train()
    teacher.eval()
    li = lab_idx[torch.randint(len(lab_idx), (32,))]
    ui = torch.randint(len(pool), (64,))
    sup = F.cross_entropy(student(perturb(x[li])), y[li])
    with torch.no_grad():
        target = F.softmax(teacher(perturb(pool[ui])), 1)
    cons = F.mse_loss(F.softmax(student(perturb(pool[ui])), 1), target)
    weight = MAX_W * min(1.0, step / WARM)
    loss = sup + weight * cons
    opt.zero_grad()
    loss.backward()
    opt.step()
    ema_update(teacher, student, step)
    if step % 100 == 0:
        print(f"step {step} sup {sup.item():.3f} cons {cons.item():.4f} val acc {accuracy(teacher, x[val_idx], y[val_idx]):.3f}")

print(f"test_acc {accuracy(teacher, x_test, y_test):.4f}")
