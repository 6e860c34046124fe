"""Mean teacher on digits with 20 labels per class; the averaged network is the one that ships."""
import copy
import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

folder = Path(sys.argv[1])
cfg = json.loads((folder / "config.json").read_text())
torch.manual_seed(cfg["seed"])
blob = np.load(folder / "digits.npz")
img = lambda k: torch.from_numpy(blob[k]).float().flatten(1) / 255
lab = lambda k: torch.from_numpy(blob[k]).long()
x_lab, y_lab, x_unl = img("x_lab"), lab("y_lab"), img("x_unl")


def make_net():
    return nn.Sequential(nn.Linear(196, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))


def perturb(x):
    return x + cfg["noise"] * torch.randn_like(x)


def rampup(step):
    t = min(1.0, step / cfg["rampup_steps"])
    return cfg["consistency"] * math.exp(-5 * (1 - t) ** 2)


@torch.no_grad()
def update_teacher(teacher, student, decay):
    for pt, ps in zip(teacher.parameters(), student.parameters()):
        pt.mul_(decay).add_(ps, alpha=1 - decay)


def accuracy(net, x, y):
    net.eval()
    with torch.no_grad():
        return (net(x).argmax(1) == y).float().mean().item()


student = make_net()
teacher = copy.deepcopy(student).requires_grad_(False)
opt = torch.optim.Adam(student.parameters(), lr=cfg["lr"])
for step in range(cfg["steps"]):
    student.train()
    teacher.eval()
    i = torch.randint(len(x_lab), (cfg["labelled_batch"],))
    j = torch.randint(len(x_unl), (cfg["unlabelled_batch"],))
    sup = F.cross_entropy(student(perturb(x_lab[i])), y_lab[i])
    with torch.no_grad():
        goal = teacher(perturb(x_unl[j])).softmax(-1)
    con = F.mse_loss(student(perturb(x_unl[j])).softmax(-1), goal)
    loss = sup + rampup(step) * con
    opt.zero_grad()
    loss.backward()
    opt.step()
    update_teacher(teacher, student, cfg["ema_decay"])
    if step % 150 == 149:
        print(f"step {step + 1} ce {sup.item():.3f} consistency {con.item():.4f} "
              f"val acc {accuracy(teacher, img('x_val'), lab('y_val')):.4f}")

torch.save(teacher.state_dict(), folder / "teacher.pt")
print(f"test acc {accuracy(teacher, img('x_test'), lab('y_test')):.4f}")
