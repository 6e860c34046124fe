"""Loan applications as CSV; the score of some applicants is unknown."""
import csv
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).parent
COLS = ["income", "bureau_score", "tenure_months", "utilisation", "n_accounts", "defaulted"]


def applicants(rng, n):
    income = rng.lognormal(10.4, 0.4, n)
    score = rng.normal(650, 40, n)
    tenure = rng.integers(1, 200, n)
    util = rng.beta(2, 3, n)
    acc = rng.poisson(4, n)
    z = -1.2 - (score - 650) / 40 * 1.9 + 1.6 * (util - 0.4) / 0.2 * ((score < 650) * 1.0) - 0.8 * (np.log(income) - 10.4) / 0.4
    y = rng.random(n) < 1 / (1 + np.exp(-2 * z))
    missing = rng.random(n) < 0.07
    return income, score, tenure, util, acc, y.astype(int), missing


def write(folder, broken):
    rng = np.random.default_rng(15)
    folder.mkdir(exist_ok=True)
    for part, n in (("applications", 3000), ("holdout", 1500)):
        income, score, tenure, util, acc, y, missing = applicants(rng, n)
        with open(folder / f"{part}.csv", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(COLS)
            for i in range(n):
                s = f"{score[i]:.0f}"
                if missing[i]:
                    s = "-99999" if broken else ""
                w.writerow([f"{income[i]:.0f}", s, tenure[i], f"{util[i]:.3f}", acc[i], y[i]])


for name in ("bug", "ok"):
    write(HERE / name, name == "bug")
