"""Boiler telemetry of two regions; the second region is the validation file."""
import csv
import os

import numpy as np

COLS = ["supply_temp", "return_temp", "pressure", "outdoor_temp", "pump_speed", "burner_hours", "gas_kwh"]


def boilers(n, rng):
    out = rng.normal(4, 7, n)
    pump = rng.uniform(0.2, 1.0, n)
    supply = 62 - 0.9 * out + rng.normal(0, 4, n)
    ret = supply - 6 - 14 * (1 - pump) + rng.normal(0, 1.5, n)
    pres = rng.normal(1.8, 0.25, n)
    hours = rng.uniform(0, 12000, n)
    gas = 0.9 * (supply - ret) * (0.3 + pump) + 0.45 * np.maximum(20 - out, 0) + 4 * (1.8 - pres) + hours / 2500
    return np.stack([supply, ret, pres, out, pump, hours, gas + rng.normal(0, 0.6, n)], 1)


for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    rng = np.random.default_rng(404)
    for name, n in (("train", 2800), ("valid", 900)):
        t = boilers(n, rng)
        if side == "bug" and name == "valid":
            for c in (0, 1, 3):
                t[:, c] = t[:, c] * 1.8 + 32
            t[:, 2] *= 14.5038
        with open(f"{side}/{name}.csv", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(COLS)
            w.writerows([[f"{v:.3f}" for v in r] for r in t])
