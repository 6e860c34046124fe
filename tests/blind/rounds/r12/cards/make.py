"""Writes bug/ and ok/: transactions.csv, labels.csv (from the charge-back desk), test.csv."""
import csv
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
rng = np.random.default_rng(41)
N, T = 6000, 3000


def transactions(n, first):
    ids = first + np.cumsum(rng.integers(1, 250, n))
    amount = rng.lognormal(3.2, 1.0, n)
    hour = rng.integers(0, 24, n)
    foreign = (rng.random(n) < 0.15).astype(int)
    gap = rng.exponential(30, n)
    age = rng.integers(1, 120, n)
    night = (hour < 6).astype(float)
    logit = (-4.2 + 0.9 * (np.log(amount) - 3.2) + 1.6 * foreign + 1.4 * night - 0.03 * gap
             + 1.2 * night * foreign - 0.01 * age)
    fraud = (rng.random(n) < 1 / (1 + np.exp(-1.6 * logit - 1.5))).astype(int)
    return ids, amount, hour, foreign, gap, age, fraud


tr = transactions(N, 1_703_000_000)
te = transactions(T, 1_704_500_000)
HEAD = ["txn_id", "amount", "hour", "foreign", "gap_min", "account_age"]


def rows(t, key):
    for k in range(len(t[0])):
        yield [key(int(t[0][k])), f"{t[1][k]:.2f}", int(t[2][k]), int(t[3][k]), f"{t[4][k]:.1f}", int(t[5][k])]


for name, key in (("ok", str), ("bug", lambda i: f"{float(i):.7g}")):
    d = HERE / name
    d.mkdir(exist_ok=True)
    with open(d / "transactions.csv", "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(HEAD)
        w.writerows(rows(tr, key))
    perm = np.random.default_rng(1).permutation(N)
    with open(d / "labels.csv", "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["txn_id", "fraud"])
        w.writerows([key(int(tr[0][k])), int(tr[6][k])] for k in perm)
    with open(d / "test.csv", "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(HEAD + ["fraud"])
        w.writerows(r + [int(y)] for r, y in zip(rows(te, str), te[6]))
