import csv
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
folder, TARGET = Path(sys.argv[1]), "died"


def read(name):
    with open(folder / name) as f:
        rows = list(csv.DictReader(f))
    features = [k for k in rows[0] if k != TARGET]
    x = torch.tensor([[float(r[k]) for k in features] for r in rows])
    y = torch.tensor([float(r[TARGET]) for r in rows])
    return features, x, y


class RiskNet(nn.Module):
    def __init__(self, n, hidden=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n, hidden), nn.ReLU(), nn.Dropout(0.1), nn.Linear(hidden, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


def auc(score, y):
    order = score.argsort()
    rank = torch.empty_like(score)
    rank[order] = torch.arange(1, len(score) + 1, dtype=score.dtype)
    pos = y.sum()
    return ((rank[y == 1].sum() - pos * (pos + 1) / 2) / (pos * (len(y) - pos))).item()


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        logit = model(x)
    return F.binary_cross_entropy_with_logits(logit, y).item(), auc(logit, y)


features, x, y = read("train.csv")
_, val_x, val_y = read("val.csv")
_, new_x, new_y = read("admissions.csv")
mean, std = x.mean(0), x.std(0).clamp(min=1e-6)
x, val_x, new_x = (x - mean) / std, (val_x - mean) / std, (new_x - mean) / std
print(f"{len(x)} patients, features {features}, {y.mean().item():.2f} died")
model = RiskNet(len(features))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-4)
for epoch in range(1, 13):
    model.train()
    total, n = 0.0, 0
    for idx in torch.randperm(len(x)).split(64):
        loss = F.binary_cross_entropy_with_logits(model(x[idx]), y[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total, n = total + loss.item(), n + 1
    val_loss, val_auc = evaluate(model, val_x, val_y)
    if epoch % 3 == 0:
        print(f"epoch {epoch} loss {total / n:.4f} val loss {val_loss:.4f} val auc {val_auc:.4f}")
new_loss, new_auc = evaluate(model, new_x, new_y)
print(f"validation AUC {val_auc:.3f} loss {val_loss:.3f}; on new admissions AUC {new_auc:.3f} loss {new_loss:.3f}")
