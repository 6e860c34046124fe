import csv
import os

import numpy as np

COLS = ["age", "income", "debt_ratio", "utilization", "inquiries", "months_employed", "open_accounts", "collection_calls", "default"]


def people(n, rng):
    age = rng.integers(20, 70, n)
    income = np.round(rng.lognormal(10.4, 0.45, n))
    debt = np.round(rng.beta(2, 4, n), 3)
    util = np.round(rng.beta(2, 3, n), 3)
    inq = rng.poisson(1.2, n)
    emp = np.round(rng.exponential(60, n))
    acc = rng.integers(1, 15, n)
    z = 4.5 * (debt - 0.33) + 4.0 * (util - 0.4) * (1 + 0.5 * (inq > 1)) + 0.45 * (inq - 1.2) - 1.0 * np.log(income / 33000) - 0.008 * (emp - 60)
    y = (rng.random(n) < 1 / (1 + np.exp(-1.6 * (z - 0.4)))).astype(int)
    early = rng.poisson(0.3, n)
    return age, income, debt, util, inq, emp, acc, early, y


def write(path, cols):
    with open(path, "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(COLS)
        w.writerows(zip(*[c.tolist() for c in cols]))


for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    rng = np.random.default_rng(77)
    past = list(people(5000, rng))
    now = list(people(1500, rng))
    later = past[7] + past[8] * (2 + rng.poisson(3.0, 5000))
    if side == "bug":
        past[7] = later
    write(f"{side}/applications_2019_2023.csv", past)
    write(f"{side}/applications_2024.csv", now)
