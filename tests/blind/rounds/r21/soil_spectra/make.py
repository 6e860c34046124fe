"""Near-infrared soil spectra -> organic carbon; spectra.npz and run.json."""
import json
import os

import numpy as np

BANDS = 120


def samples(n, rng):
    w = np.linspace(0, 1, BANDS)
    carbon, clay, water = rng.gamma(3, 0.8, n), rng.uniform(5, 60, n), rng.uniform(0, 1, n)
    s = 0.5 + 0.2 * w
    s = s - 0.05 * carbon[:, None] * np.exp(-((w - 0.25) / 0.15) ** 2) - 0.006 * clay[:, None] * np.exp(-((w - 0.8) / 0.05) ** 2)
    s = s - 0.25 * water[:, None] * (np.exp(-((w - 0.5) / 0.06) ** 2) + 0.5 * np.exp(-((w - 0.2) / 0.05) ** 2))
    s = s * rng.normal(1, 0.04, (n, 1)) + rng.normal(0, 0.008, (n, BANDS))
    return s.astype(np.float32), carbon.astype(np.float32)


for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    rng = np.random.default_rng(14)
    x, y = samples(2400, rng)
    xv, yv = samples(600, rng)
    np.savez(f"{side}/spectra.npz", x=x, y=y, x_valid=xv, y_valid=yv)
    run = {"epochs": 12, "lr": 0.003, "weight_decay": 0.0001,
           "batch_size": 32, "accumulate": 128 if side == "bug" else 2, "width": 64, "seed": 30}
    json.dump(run, open(f"{side}/run.json", "w"), indent=1)
