"""Writes hourly spot prices and the run settings for the storage controller."""
import json
import os

import numpy as np

rng = np.random.default_rng(41)


def prices(weeks):
    n = weeks * 168
    h = np.arange(n)
    daily = 26 * np.sin(2 * np.pi * (h - 11) / 24) + 9 * np.sin(4 * np.pi * (h - 2) / 24)
    weekend = np.where((h // 24) % 7 >= 5, -9.0, 0.0)
    ar = np.zeros(n)
    for i in range(1, n):
        ar[i] = 0.93 * ar[i - 1] + rng.normal(0, 2.6)
    return np.maximum(62 + daily + weekend + ar, 1.0).astype(np.float32)


train, valid = prices(104), prices(40)
per_hour = 0.98
settings = {
    "hidden": 64, "lr": 0.003, "batch": 192, "updates": 1200, "target_rate": 0.04,
    "discount": per_hour, "levels": 12, "efficiency": 0.8, "mw": 10, "seed": 5,
}
for side in ("ok", "bug"):
    os.makedirs(side, exist_ok=True)
    np.save(f"{side}/spot_train.npy", train)
    np.save(f"{side}/spot_valid.npy", valid)
    out = dict(settings)
    if side == "bug":
        out["discount"] = round(per_hour ** 168, 4)
    with open(f"{side}/settings.json", "w") as f:
        json.dump(out, f, indent=1)
