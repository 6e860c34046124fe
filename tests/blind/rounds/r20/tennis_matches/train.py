# %% Who wins? Tennis match outcome from ratings, form and surface
import csv
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

folder = sys.argv[1]
torch.manual_seed(2024)
np.random.seed(2024)


# %% data
def read(name):
    with open(f"{folder}/{name}.csv") as f:
        rows = list(csv.DictReader(f))
    num = np.array([[float(r[k]) for k in ("elo_1", "elo_2", "form_1", "form_2", "clay_1", "clay_2", "rest_1", "rest_2")]
                    for r in rows], dtype=np.float32)
    surf = np.array([int(r["surface"]) for r in rows])
    y = np.array([float(r["first_won"]) for r in rows], dtype=np.float32)
    return num, surf, y


def tensors(num, surf, y, mean, std):
    return torch.from_numpy((num - mean) / std), torch.from_numpy(surf), torch.from_numpy(y)


num, surf, y = read("train")
mean, std = num.mean(0), num.std(0)
train = tensors(num, surf, y, mean, std)
val = tensors(*read("val"), mean, std)
print("train", len(y), "val", len(val[2]), "base rate", y.mean().round(3))


# %% model: antisymmetric by construction
class MatchNet(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.surface = nn.Embedding(3, 4)
        self.strength = nn.Sequential(nn.Linear(8 + 4, hidden), nn.Tanh(), nn.Dropout(0.1), nn.Linear(hidden, hidden), nn.Tanh(),
                                      nn.Linear(hidden, 1))

    def forward(self, x, s):
        e = self.surface(s)
        swapped = x[:, [1, 0, 3, 2, 5, 4, 7, 6]]
        return (self.strength(torch.cat([x, e], 1)) - self.strength(torch.cat([swapped, e], 1))).squeeze(1)


def evaluate(net, data):
    net.eval()
    with torch.no_grad():
        z = net(data[0], data[1])
    acc = ((z > 0).float() == data[2]).float().mean().item()
    return F.binary_cross_entropy_with_logits(z, data[2]).item(), acc


# %% training
net = MatchNet()
opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-2)
epochs, bs = 25, 32
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
for epoch in range(epochs):
    net.train()
    perm = torch.randperm(len(train[2]))
    total = 0.0
    for i in range(0, len(perm), bs):
        j = perm[i:i + bs]
        loss = F.binary_cross_entropy_with_logits(net(train[0][j], train[1][j]), train[2][j])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(j)
    sched.step()
    if epoch % 4 == 0:
        ll, acc = evaluate(net, val)
        print(f"epoch {epoch:2d} train logloss {total / len(perm):.4f} val logloss {ll:.4f} val acc {acc:.4f}")

# %% result
ll, acc = evaluate(net, val)
print(f"validation accuracy {acc:.4f} logloss {ll:.4f}")
