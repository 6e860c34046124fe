"""Siamese verifier of signature descriptors, contrastive loss."""
import sys
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

folder = sys.argv[1]
MARGIN = 1.0


def load(npy, csv):
    x = torch.from_numpy(np.load(f"{folder}/{npy}").astype(np.float32))
    p = torch.from_numpy(np.loadtxt(f"{folder}/{csv}", delimiter=",", skiprows=1).astype(np.int64))
    return x, p


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))

    def forward(self, x):
        return F.normalize(self.f(x), dim=1)


def distance(net, x, p):
    return (net(x[p[:, 0]]) - net(x[p[:, 1]])).pow(2).sum(1).add(1e-9).sqrt()


def contrastive(d, same):
    return (same * d ** 2 + (1 - same) * F.relu(MARGIN - d) ** 2).mean()


def auc(score, y):
    r = torch.argsort(torch.argsort(score)).double() + 1
    p, n = int(y.sum()), int((1 - y).sum())
    return (r[y == 1].sum().item() - p * (p + 1) / 2) / (p * n)


torch.manual_seed(3)
x, p = load("train_cache.npy", "pairs_train.csv")
xt, pt = load("test.npy", "pairs_test.csv")
net = Tower()
opt = torch.optim.Adam(net.parameters(), lr=1e-3, weight_decay=1e-4)
for epoch in range(14):
    net.train()
    tot = 0.0
    for idx in torch.randperm(len(p)).split(100):
        loss = contrastive(distance(net, x, p[idx]), p[idx, 2].float())
        opt.zero_grad()
        loss.backward()
        opt.step()
        tot += loss.item() * len(idx)
    if epoch % 3 == 1:
        print(f"epoch {epoch} contrastive {tot / len(p):.4f}")
net.eval()
with torch.no_grad():
    print("final verification AUC", auc(-distance(net, xt, pt), pt[:, 2]))
