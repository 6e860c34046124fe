"""Default model on a loan book. usage: train.py FOLDER (loans_train.csv, loans_valid.csv, loans_test.csv)"""
import csv
import pathlib
import sys

import numpy as np
import torch
import torch.nn as nn

TARGET = "defaulted"
NUMERIC = ["income", "debt_ratio", "utilisation", "age", "months_employed", "open_lines"]
PURPOSES = ["car", "home", "education", "other"]


def load(path):
    """Rows to arrays; an empty cell is a missing value."""
    num, cat, y = [], [], []
    with open(path, newline="") as f:
        for row in csv.DictReader(f):
            num.append([float(row[c]) if row[c] != "" else np.nan for c in NUMERIC])
            cat.append(PURPOSES.index(row["purpose"]))
            y.append(float(row[TARGET]))
    return np.array(num), np.array(cat), np.array(y, np.float32)


class Preprocess:
    """Median imputation with a flag, then z-scores; fitted on the training rows."""

    def fit(self, num):
        self.median = np.nanmedian(num, axis=0)
        filled = np.where(np.isnan(num), self.median, num)
        self.mean, self.std = filled.mean(0), filled.std(0) + 1e-9
        return self

    def __call__(self, num, cat):
        flag = np.isnan(num)
        z = (np.where(flag, self.median, num) - self.mean) / self.std
        onehot = np.eye(len(PURPOSES))[cat]
        return torch.tensor(np.concatenate([z, flag, onehot], 1), dtype=torch.float32)


class Scorecard(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.wide = nn.Linear(d, 1)
        self.deep = nn.Sequential(nn.Linear(d, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 1))

    def forward(self, x):
        return (self.wide(x) + self.deep(x)).squeeze(1)


def auc(s, y):
    ranks = np.argsort(np.argsort(s)) + 1
    p = y == 1
    return (ranks[p].sum() - p.sum() * (p.sum() + 1) / 2) / (p.sum() * (~p).sum())


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.manual_seed(42)
    tr, va, te = (load(folder / f"loans_{s}.csv") for s in ("train", "valid", "test"))
    prep = Preprocess().fit(tr[0])
    xtr, xva, xte = (prep(s[0], s[1]) for s in (tr, va, te))
    ytr = torch.from_numpy(tr[2])
    model = Scorecard(xtr.shape[1])
    opt = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-5)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, mode="max", factor=0.5, patience=2)
    lossf = nn.BCEWithLogitsLoss()
    best, best_state = -1.0, None
    for epoch in range(18):
        model.train()
        losses = []
        for idx in torch.randperm(len(ytr)).split(64):
            opt.zero_grad()
            loss = lossf(model(xtr[idx]), ytr[idx])
            loss.backward()
            opt.step()
            losses.append(loss.item())
        model.eval()
        with torch.no_grad():
            v = auc(model(xva).numpy(), va[2])
        plateau.step(v)
        if v > best:
            best, best_state = v, {k: t.clone() for k, t in model.state_dict().items()}
        print(f"epoch {epoch:2d} loss {np.mean(losses):.4f} valid auc {v:.4f}")
    model.load_state_dict(best_state)
    model.eval()
    with torch.no_grad():
        print(f"test auc {auc(model(xte).numpy(), te[2]):.4f}")


if __name__ == "__main__":
    main()
