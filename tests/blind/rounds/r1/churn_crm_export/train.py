"""Churn model on the monthly CRM export. usage: train.py FOLDER"""
import csv
import sys
from pathlib import Path
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

folder = Path(sys.argv[1])
torch.manual_seed(0)
EPOCHS, BATCH, LR = 15, 128, 3e-3


def read_export(name):
    with open(folder / name, newline="") as f:
        rows = list(csv.DictReader(f))
    columns = [c for c in rows[0] if c not in ("customer_id", "churned")]
    x = np.array([[float(r[c]) for c in columns] for r in rows], dtype=np.float32)
    y = np.array([float(r["churned"]) for r in rows], dtype=np.float32)
    return columns, torch.tensor(x), torch.tensor(y)


def auc(score, label):
    rank = np.argsort(np.argsort(score)) + 1.0
    n_pos = (label == 1).sum()
    return (rank[label == 1].sum() - n_pos * (n_pos + 1) / 2) / (n_pos * (len(label) - n_pos))


columns, x_train, y_train = read_export("train.csv")
_, x_val, y_val = read_export("val.csv")
_, x_next, y_next = read_export("next_month.csv")
print("features:", ", ".join(columns))
mean, std = x_train.mean(0), x_train.std(0) + 1e-6
x_train, x_val, x_next = [(x - mean) / std for x in (x_train, x_val, x_next)]

model = nn.Sequential(nn.Linear(len(columns), 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(EPOCHS):
    model.train()
    total = 0.0
    for idx in torch.randperm(len(x_train)).split(BATCH):
        loss = F.binary_cross_entropy_with_logits(model(x_train[idx]).squeeze(1), y_train[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(idx)
    model.eval()
    with torch.no_grad():
        val_auc = auc(model(x_val).squeeze(1).numpy(), y_val.numpy())
    if epoch % 3 == 2:
        print(f"epoch {epoch:2d} loss {total / len(x_train):.4f} val AUC {val_auc:.3f}")
with torch.no_grad():
    logit = model(x_next).squeeze(1)
print(f"scored at the start of next month: AUC {auc(logit.numpy(), y_next.numpy()):.3f} "
      f"log-loss {F.binary_cross_entropy_with_logits(logit, y_next).item():.3f}")
