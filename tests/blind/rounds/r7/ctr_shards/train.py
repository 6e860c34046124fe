"""Factorisation-machine click model; the impression log is cut in shards listed in a manifest."""
import json
import os
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

root = sys.argv[1]
FIELDS = {"ad": 30, "site": 40, "user": 400, "hour": 24}
EPOCHS, BATCH, LR, DECAY = 6, 64, 3e-3, 1e-2
torch.manual_seed(1)


def load(names):
    cols, clicks = [], []
    for name in names:
        part = np.load(os.path.join(root, name))
        cols.append(np.stack([part[f] for f in FIELDS], axis=1).astype(np.int64))
        clicks.append(part["click"].astype(np.float32))
    return torch.from_numpy(np.concatenate(cols)), torch.from_numpy(np.concatenate(clicks))


class FM(nn.Module):
    def __init__(self, cards, dim=4):
        super().__init__()
        offsets = np.concatenate([[0], np.cumsum(cards)[:-1]])
        self.register_buffer("offsets", torch.tensor(offsets))
        self.linear = nn.Embedding(sum(cards), 1)
        self.factors = nn.Embedding(sum(cards), dim)
        self.bias = nn.Parameter(torch.zeros(()))
        nn.init.zeros_(self.linear.weight)
        nn.init.normal_(self.factors.weight, std=0.05)

    def forward(self, x):
        x = x + self.offsets
        v = self.factors(x)
        pair = 0.5 * (v.sum(1).pow(2) - v.pow(2).sum(1)).sum(1)
        return self.bias + self.linear(x).sum((1, 2)) + pair


def rank_auc(score, label):
    order = score.argsort()
    rank = torch.empty(len(score), dtype=torch.double)
    rank[order] = torch.arange(1, len(score) + 1, dtype=torch.double)
    pos = label == 1
    return ((rank[pos].sum() - pos.sum() * (pos.sum() + 1) / 2) / (pos.sum() * (~pos).sum())).item()


manifest = json.load(open(os.path.join(root, "manifest.json")))
x_tr, y_tr = load(manifest["train"])
x_va, y_va = load(manifest["valid"])
print(f"train impressions {len(y_tr)} (ctr {y_tr.mean():.3f}), valid impressions {len(y_va)} (ctr {y_va.mean():.3f})")

model = FM(list(FIELDS.values()))
opt = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(EPOCHS):
    model.train()
    total = 0.0
    for idx in torch.randperm(len(y_tr)).split(BATCH):
        loss = F.binary_cross_entropy_with_logits(model(x_tr[idx]), y_tr[idx])
        reg = DECAY * (model.factors(x_tr[idx] + model.offsets).pow(2).sum((1, 2)).mean())
        opt.zero_grad()
        (loss + reg).backward()
        opt.step()
        total += loss.item() * len(idx)
    model.eval()
    with torch.no_grad():
        logit = model(x_va)
    print(f"epoch {epoch}  train logloss {total / len(y_tr):.4f}  "
          f"valid logloss {F.binary_cross_entropy_with_logits(logit, y_va).item():.4f}  valid auc {rank_auc(logit, y_va):.4f}")
