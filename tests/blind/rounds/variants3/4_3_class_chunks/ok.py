import random

import torch
from torch import nn
import torch.nn.functional as F

random.seed(0)
torch.manual_seed(10)
CLASSES, PER_CLASS, DIM = 6, 250, 20
centers = 1.1 * torch.randn(CLASSES, DIM)


def draw(label, n):
    return centers[label] + torch.randn(n, DIM) * 1.2


x = torch.cat([draw(c, PER_CLASS) for c in range(CLASSES)])
y = torch.arange(CLASSES).repeat_interleave(PER_CLASS)
held = torch.arange(len(x)) % 5 == 0
train_x, train_y, valid_x, valid_y = x[~held], y[~held], x[held], y[held]


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Sequential(
            nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, width), nn.BatchNorm1d(width)
        )

    def forward(self, h):
        return F.relu(h + self.inner(h))


net = nn.Sequential(nn.Linear(DIM, 48), nn.BatchNorm1d(48), nn.ReLU(), Residual(48), nn.Linear(48, CLASSES))
opt = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9, nesterov=True)


def chunks_for_epoch(size=40):
    parts = list(torch.randperm(len(train_x)).split(size))
    random.shuffle(parts)
    return parts


def fit_epoch():
    net.train()
    total = 0.0
    for rows in chunks_for_epoch():
        loss = F.cross_entropy(net(train_x[rows]), train_y[rows])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        total += loss.item() * len(rows)
    return total / len(train_x)


@torch.inference_mode()
def evaluate():
    net.eval()
    out = net(valid_x)
    hit = out.argmax(1) == valid_y
    per_class = torch.stack([hit[valid_y == c].float().mean() for c in range(CLASSES)])
    return F.cross_entropy(out, valid_y).item(), hit.float().mean().item(), per_class.min().item()


for epoch in range(8):
    train_loss = fit_epoch()
    loss, acc, worst = evaluate()
    print(f"epoch {epoch}  train {train_loss:.4f}  valid {loss:.4f}  acc {acc:.3f}  worst class {worst:.3f}")
