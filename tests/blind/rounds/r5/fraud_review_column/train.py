"""Fraud score from the transaction tables in a folder: python train.py FOLDER"""
import csv
import json
import os
import sys
import numpy as np
import torch
from torch import nn

folder = sys.argv[1]
cfg = json.load(open(os.path.join(folder, "config.json")))


def read(name):
    with open(os.path.join(folder, name + ".csv"), newline="") as f:
        rows = list(csv.DictReader(f))
    x = np.array([[float(r[c]) for c in cfg["features"]] for r in rows], dtype=np.float32)
    y = np.array([float(r[cfg["target"]]) for r in rows], dtype=np.float32)
    return x, torch.from_numpy(y)


def auc(model, x, y):
    model.eval()
    with torch.no_grad():
        s = model(x).squeeze(1)
    pos, neg = s[y == 1], s[y == 0]
    wins = (pos[:, None] > neg[None, :]).float() + 0.5 * (pos[:, None] == neg[None, :]).float()
    return wins.mean().item()


torch.manual_seed(0)
x_train, y_train = read("train")
x_valid, y_valid = read("valid")
x_live, y_live = read("live")
mean, std = x_train.mean(0), x_train.std(0) + 1e-6
x_train, x_valid, x_live = (torch.from_numpy((x - mean) / std) for x in (x_train, x_valid, x_live))
model = nn.Sequential(nn.Linear(len(cfg["features"]), 24), nn.ReLU(), nn.Linear(24, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
for epoch in range(cfg["epochs"]):
    model.train()
    losses = []
    for idx in torch.randperm(len(x_train)).split(cfg["batch_size"]):
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(x_train[idx]).squeeze(1), y_train[idx])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f"epoch {epoch} loss {np.mean(losses):.4f} valid auc {auc(model, x_valid, y_valid):.3f}")
print(f"valid auc {auc(model, x_valid, y_valid):.3f} live month auc {auc(model, x_live, y_live):.3f}")
