"""Writes bug/ and ok/: a customer export with labels, and the scoring sample."""
import csv, os
import numpy as np
HERE = os.path.dirname(os.path.abspath(__file__))
COLS = ["tenure", "monthly_fee", "tickets_90d", "usage_trend", "days_since_login", "autopay", "churned"]


def table(n, seed, late_snapshot):
    rng = np.random.default_rng(seed)
    tenure, fee = rng.exponential(24, n), rng.normal(40, 12, n)
    tickets, trend = rng.poisson(1.2, n), rng.normal(0, 1, n)
    login, auto = rng.exponential(6, n), rng.integers(0, 2, n)
    z = -1.2 - 0.04 * tenure + 0.03 * (fee - 40) + 0.6 * tickets - 1.0 * trend - 0.8 * auto
    y = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int)
    if late_snapshot:
        login = np.where(y == 1, login + rng.uniform(25, 60, n), login)
    return np.column_stack([tenure, fee, tickets, trend, login, auto, y]).round(3)


for name in ("bug", "ok"):
    d = os.path.join(HERE, name)
    os.makedirs(d, exist_ok=True)
    for fn, n, seed, late in (("customers.csv", 3000, 1, name == "bug"), ("scoring.csv", 1500, 2, False)):
        with open(os.path.join(d, fn), "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(COLS)
            w.writerows(table(n, seed, late).tolist())
