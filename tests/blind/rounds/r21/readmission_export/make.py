"""Writes the hospital exports: train.csv, valid.csv (same export) and live.csv (scored on the day of discharge)."""
import csv
import os

import numpy as np

COLS = ["age", "stay_days", "n_drugs", "creatinine", "hemoglobin", "prior_visits", "emergency", "contact_score"]


def patients(n, rng):
    age = rng.normal(64, 13, n).clip(18, 98)
    stay = rng.gamma(2.0, 2.5, n) + 1
    drugs = rng.poisson(4 + age / 30, n)
    crea = rng.lognormal(0.1, 0.35, n)
    hb = rng.normal(12.8, 1.8, n)
    prior = rng.poisson(0.9, n)
    er = rng.integers(0, 2, n)
    logit = (0.05 * (age - 64) + 0.22 * (stay - 6) + 0.25 * (drugs - 6) + 1.8 * np.log(crea) - 0.45 * (hb - 12.8)
             + 0.9 * (prior - 0.9) + 0.8 * er - 0.9)
    y = (rng.random(n) < 1 / (1 + np.exp(-1.5 * logit))).astype(int)
    return [age, stay, drugs, crea, hb, prior, er], y


def write(path, cols, y):
    with open(path, "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(COLS + ["readmitted"])
        for row in zip(*cols, y):
            w.writerow([f"{v:.2f}" if isinstance(v, float) else int(v) for v in row])


for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    rng = np.random.default_rng(77)
    for name, n in (("train", 2400), ("valid", 700), ("live", 1500)):
        cols, y = patients(n, rng)
        noise = rng.normal(0, 1, n)
        if side == "bug" and name != "live":
            score = 2.0 + 3.0 * y + 0.35 * noise
        else:
            score = 2.0 + 0.6 * (cols[5] > 1) + 0.8 * noise
        write(f"{side}/{name}.csv", cols + [score], y)
