"""Card fraud: join transactions with charge-back labels, train a small network, report AUC."""
import csv
import math
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

FEATURES = ["amount", "hour", "foreign", "gap_min", "account_age"]


def read_csv(path):
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


def features(rows):
    out = []
    for r in rows:
        h = 2 * math.pi * float(r["hour"]) / 24
        out.append([math.log1p(float(r["amount"])), math.sin(h), math.cos(h), float(r["foreign"]),
                    math.log1p(float(r["gap_min"])), float(r["account_age"]) / 120])
    return np.array(out, np.float32)


def load_train(folder):
    rows = read_csv(folder / "transactions.csv")
    label = {float(r["txn_id"]): int(r["fraud"]) for r in read_csv(folder / "labels.csv")}
    y = np.array([label[float(r["txn_id"])] for r in rows], np.float32)
    return features(rows), y


def load_test(folder):
    rows = read_csv(folder / "test.csv")
    return features(rows), np.array([int(r["fraud"]) for r in rows])


def auc(score, y):
    rank = np.empty(len(score))
    rank[np.argsort(score)] = np.arange(1, len(score) + 1)
    p = y == 1
    return (rank[p].sum() - p.sum() * (p.sum() + 1) / 2) / (p.sum() * (~p).sum())


class Risk(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.a = nn.Linear(d, 32)
        self.b = nn.Linear(32, 32)
        self.c = nn.Linear(32, 1)

    def forward(self, x):
        h = torch.relu(self.a(x))
        h = h + torch.relu(self.b(h))
        return self.c(h).squeeze(-1)


def main(folder):
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    x, y = load_train(folder)
    order = rng.permutation(len(y))
    x, y = x[order], y[order]
    n_val = len(y) // 6
    mu, sd = x[n_val:].mean(0), x[n_val:].std(0) + 1e-6
    x = torch.from_numpy((x - mu) / sd)
    y = torch.from_numpy(y)
    xv, yv, x, y = x[:n_val], y[:n_val], x[n_val:], y[n_val:]
    print(f"{len(y)} rows, fraud rate {y.mean():.3f}")
    net = Risk(x.shape[1])
    opt = torch.optim.Adam(net.parameters(), lr=2e-3, weight_decay=1e-4)
    pos_weight = (1 - y.mean()) / y.mean()
    crit = nn.BCEWithLogitsLoss(pos_weight=pos_weight)
    best, state, wait = math.inf, None, 0
    for epoch in range(25):
        net.train()
        total = 0.0
        for idx in torch.randperm(len(y)).split(64):
            loss = crit(net(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        net.eval()
        with torch.no_grad():
            v = crit(net(xv), yv).item()
        print(f"epoch {epoch:2d} train {total / len(y):.4f} val {v:.4f}")
        if v < best - 1e-4:
            best, state, wait = v, {k: t.clone() for k, t in net.state_dict().items()}, 0
        else:
            wait += 1
            if wait == 6:
                break
    net.load_state_dict(state)
    xt, yt = load_test(folder)
    with torch.no_grad():
        s = net(torch.from_numpy((xt - mu) / sd)).numpy()
    print(f"test auc {auc(s, yt):.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
