"""Churn model. usage: train.py FOLDER (customers.csv to fit, scoring.csv = next quarter)."""
import csv
import os
import sys
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

folder = sys.argv[1]


def read(name):
    with open(os.path.join(folder, name)) as f:
        rows = list(csv.DictReader(f))
    cols = [c for c in rows[0] if c != "churned"]
    x = torch.tensor([[float(r[c]) for c in cols] for r in rows])
    y = torch.tensor([float(r["churned"]) for r in rows])
    return x, y


def auc(score, y):
    order = torch.argsort(torch.argsort(score)).double() + 1
    p, n = y.sum().item(), (1 - y).sum().item()
    return ((order[y == 1].sum().item() - p * (p + 1) / 2) / (p * n))


def main():
    torch.manual_seed(0)
    x, y = read("customers.csv")
    fit, val = random_split(range(len(x)), [0.8, 0.2])
    fit, val = torch.tensor(list(fit)), torch.tensor(list(val))
    mu, sd = x[fit].mean(0), x[fit].std(0)
    norm = lambda t: (t - mu) / sd
    loader = DataLoader(TensorDataset(norm(x[fit]), y[fit]), batch_size=64, shuffle=True)
    model = nn.Sequential(nn.Linear(x.shape[1], 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 1))
    w = (1 - y[fit]).sum() / y[fit].sum()
    loss_fn = nn.BCEWithLogitsLoss(pos_weight=w)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(12):
        model.train()
        tot = 0.0
        for a, b in loader:
            opt.zero_grad()
            loss = loss_fn(model(a).squeeze(1), b)
            loss.backward()
            opt.step()
            tot += loss.item()
        model.eval()
        with torch.no_grad():
            v = auc(model(norm(x[val])).squeeze(1), y[val])
        print(f"epoch {epoch} loss {tot / len(loader):.4f} val auc {v:.4f}")
    xs, ys = read("scoring.csv")
    with torch.no_grad():
        print("final scoring AUC", auc(model(norm(xs)).squeeze(1), ys))


if __name__ == "__main__":
    main()
