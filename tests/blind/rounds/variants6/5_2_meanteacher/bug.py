import copy

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

HP = dict(labelled=150, batch_l=32, batch_u=128, steps=500, decay=0.98, weight=2.0, jitter=0.25, lr=2e-3, seed=12)


def crops(n, rng):
    """Reflectance over eight dates for four crops, raw sensor counts."""
    y = rng.integers(0, 4, n)
    dates = np.linspace(0, 1, 8)
    peak = np.array([0.3, 0.5, 0.62, 0.8])[y][:, None] + rng.normal(0, 0.05, (n, 1))
    width = np.array([0.12, 0.25, 0.12, 0.18])[y][:, None] * rng.uniform(0.85, 1.15, (n, 1))
    height = rng.uniform(0.5, 0.9, (n, 1))
    ndvi = 0.15 + height * np.exp(-0.5 * ((dates - peak) / width) ** 2)
    counts = 80 + 60 * ndvi + rng.normal(0, 3.5, ndvi.shape)
    return counts.astype(np.float32), y


class Net(nn.Module):
    def __init__(self, d=8, k=4, width=64):
        super().__init__()
        self.norm = nn.BatchNorm1d(d, affine=False)
        self.l1, self.b1 = nn.Linear(d, width), nn.BatchNorm1d(width)
        self.l2, self.b2 = nn.Linear(width, width), nn.BatchNorm1d(width)
        self.head = nn.Linear(width, k)

    def forward(self, x):
        x = self.norm(x)
        if self.training:
            x = x + HP["jitter"] * torch.randn_like(x)
        h = F.relu(self.b1(self.l1(x)))
        h = F.relu(self.b2(self.l2(h)))
        return self.head(h)


@torch.no_grad()
def ema_update(teacher, student, decay):
    for t, s in zip(teacher.parameters(), student.parameters()):
        t.mul_(decay).add_(s, alpha=1 - decay)


def rampup(step, length=250):
    return float(np.exp(-5 * (1 - min(1.0, step / length)) ** 2))


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    return (model(x).argmax(1) == y).float().mean().item()


def main():
    torch.manual_seed(HP["seed"])
    rng = np.random.default_rng(HP["seed"])
    x, y = crops(6000, rng)
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    n = HP["labelled"]
    xl, yl, xu, xt, yt = x[:n], y[:n], x[n:4500], x[4500:], y[4500:]
    student = Net()
    teacher = copy.deepcopy(student)
    for p in teacher.parameters():
        p.requires_grad_(False)
    teacher.eval()
    opt = torch.optim.Adam(student.parameters(), lr=HP["lr"])
    for step in range(HP["steps"]):
        student.train()
        il = torch.randint(0, n, (HP["batch_l"],))
        iu = torch.randint(0, len(xu), (HP["batch_u"],))
        both = torch.cat([xl[il], xu[iu]])
        out = student(both)
        sup = F.cross_entropy(out[:HP["batch_l"]], yl[il])
        with torch.no_grad():
            soft = teacher(both).softmax(1)
        cons = (out.softmax(1) - soft).pow(2).sum(1).mean()
        loss = sup + HP["weight"] * rampup(step) * cons
        opt.zero_grad()
        loss.backward()
        opt.step()
        ema_update(teacher, student, HP["decay"])
        if step % 125 == 0:
            print(f"step {step:3d} supervised {sup.item():.4f} consistency {cons.item():.4f}")
    print(f"teacher test accuracy: {accuracy(teacher, xt, yt):.4f}")


if __name__ == "__main__":
    main()
