"""Writes the spectra table and the run configuration."""
import csv
import json
import os

import numpy as np

GRAPES = ["barbera", "grignolino", "nebbiolo", "pinot", "syrah"]
BANDS = 60


def spectra(n_each, rng):
    w = np.linspace(0, 1, BANDS)
    rows = []
    centres = np.array([[0.20, 0.55, 0.80], [0.24, 0.52, 0.80], [0.20, 0.60, 0.76], [0.26, 0.58, 0.84], [0.22, 0.56, 0.88]])
    for g in range(len(GRAPES)):
        for _ in range(n_each):
            c = centres[g] + rng.normal(0, 0.015, 3)
            a = rng.uniform(0.6, 1.3, 3)
            s = sum(ai * np.exp(-((w - ci) / 0.09) ** 2) for ai, ci in zip(a, c))
            s = s + rng.normal(0, 0.15) + rng.normal(0, 0.2) * w + rng.normal(0, 0.05, BANDS)
            rows.append((GRAPES[g], s))
    return rows


def write(path, rows):
    with open(path, "w", newline="") as f:
        out = csv.writer(f)
        out.writerow(["sample", "grape"] + [f"nm{900 + 10 * i}" for i in range(BANDS)])
        for i, (grape, s) in enumerate(rows):
            out.writerow([f"W{i:04d}", grape] + [f"{v:.3f}" for v in s])


for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    rng = np.random.default_rng(12)
    train, val = spectra(180, rng), spectra(70, rng)
    write(f"{side}/train.csv", train)
    write(f"{side}/val.csv", val)
    cfg = {"epochs": 10, "batch_size": 32, "optimizer": {"lr": 0.02, "momentum": 0.9},
           "loader": {"shuffle": side == "ok", "drop_last": False}, "hidden": 48, "seed": 5}
    with open(f"{side}/config.json", "w") as f:
        json.dump(cfg, f, indent=2)
