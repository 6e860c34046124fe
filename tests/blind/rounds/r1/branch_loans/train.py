"""Loan default model on the files of the branches; a new branch serves as validation."""
import json
import sys
from pathlib import Path
import numpy as np
import torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset

FOLDER = Path(sys.argv[1])


def branch(name):
    rows = np.loadtxt(FOLDER / f"{name}.csv", delimiter=",", skiprows=1, dtype=np.float32)
    return torch.tensor(rows[:, :-1]), torch.tensor(rows[:, -1])


def auc(score, label):
    rank = np.argsort(np.argsort(score)) + 1.0
    n_pos = (label == 1).sum()
    return (rank[label == 1].sum() - n_pos * (n_pos + 1) / 2) / (n_pos * (len(label) - n_pos))


class LoanNet(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.net = nn.Sequential(nn.Linear(len(mean), 24), nn.ReLU(), nn.Linear(24, 1))

    def forward(self, x):
        return self.net((x - self.mean) / self.std).squeeze(1)


cfg = json.loads((FOLDER / "branches.json").read_text())
torch.manual_seed(cfg["seed"])
parts = [branch(name) for name in cfg["train"]]
for name, (x, y) in zip(cfg["train"], parts):
    print(f"{name:8s} {len(y)} loans, mean status {y.mean():.3f}")
x_all = torch.cat([x for x, _ in parts])
x_val, y_val = branch(cfg["validation"])
model = LoanNet(x_all.mean(0), x_all.std(0))
loader = DataLoader(ConcatDataset([TensorDataset(*p) for p in parts]), batch_size=64, shuffle=True)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
criterion = nn.BCEWithLogitsLoss()
for epoch in range(12):
    model.train()
    total, count = 0.0, 0
    for x, y in loader:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(y)
        count += len(y)
    model.eval()
    with torch.no_grad():
        logit = model(x_val)
    if epoch % 3 == 2:
        print(f"epoch {epoch:2d} train {total / count:.4f} val {criterion(logit, y_val).item():.4f} AUC {auc(logit.numpy(), y_val.numpy()):.3f}")
