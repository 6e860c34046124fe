import csv
import os
import sys

import numpy as np

FIELDS = ["customer", "income", "age", "months_on_book", "utilisation", "late_payments", "other_debt", "credit_limit"]


def customers(rng, n, first):
    rows = []
    for i in range(n):
        income = float(np.exp(rng.normal(10.5, 0.5)))
        age = int(rng.integers(20, 75))
        months = int(rng.integers(1, 180))
        util = float(rng.beta(2, 3))
        late = int(rng.poisson(0.7))
        debt = float(rng.gamma(2.0, 4000))
        limit = 0.22 * income * (1 - 0.09 * late) * (0.75 + 0.5 * util) + 8 * months - 0.06 * debt
        limit = max(500.0, limit * np.exp(rng.normal(0, 0.08)))
        rows.append([first + i, income, age, months, util, late, debt, limit])
    return rows


def save(path, rows, income_factor=1.0):
    with open(path, "w", newline="") as fh:
        w = csv.writer(fh)
        w.writerow(FIELDS)
        for r in rows:
            w.writerow([r[0], f"{r[1] * income_factor:.2f}", r[2], r[3], f"{r[4]:.3f}", r[5], f"{r[6]:.2f}", f"{r[7]:.2f}"])


def write(dest, mode):
    os.makedirs(os.path.join(dest, "data"), exist_ok=True)
    rng = np.random.default_rng(77)
    for q in range(1, 5):
        factor = 1 / 12 if mode == "bug" and q in (2, 4) else 1.0
        save(os.path.join(dest, "data", f"accounts_q{q}.csv"), customers(rng, 1500, 10000 * q), factor)
    save(os.path.join(dest, "data", "holdout.csv"), customers(rng, 1500, 90000))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        write(sys.argv[1], sys.argv[2])
    else:
        here = os.path.dirname(os.path.abspath(__file__))
        for mode in ("bug", "ok"):
            write(os.path.join(here, mode), mode)
