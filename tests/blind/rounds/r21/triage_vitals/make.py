"""Emergency department arrivals with the triage colour given by the senior nurse."""
import json
import os

import numpy as np

rng = np.random.default_rng(909)
N = 4000
severity = rng.gamma(1.6, 1.0, N)
cuts = np.quantile(severity, [0.58, 0.85, 0.955])
level = np.searchsorted(cuts, severity)              # 0 green .. 3 red
x = np.stack([
    78 + 9 * severity + rng.normal(0, 9, N),         # heart rate
    15 + 2.4 * severity + rng.normal(0, 2.2, N),     # breaths
    98.5 - 1.6 * severity + rng.normal(0, 1.5, N),   # oxygen saturation
    128 - 7 * severity + rng.normal(0, 11, N),       # systolic pressure
    36.8 + 0.25 * severity + rng.normal(0, 0.5, N),  # temperature
    np.clip(2 + 1.4 * severity + rng.normal(0, 1.5, N), 0, 10),   # pain
    rng.uniform(18, 92, N),                          # age
], 1).astype(np.float32)
colour = np.array([3, 2, 1, 0])[level]               # index into the names below
names = ["red", "orange", "yellow", "green"]
share = np.bincount(colour, minlength=4) / N
weights = [round(float(v), 3) for v in 1 / (4 * share)]

for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    np.savez(f"{side}/arrivals.npz", vitals=x, colour=colour.astype(np.int64))
    listed = weights[::-1] if side == "bug" else weights
    with open(f"{side}/triage.json", "w") as f:
        json.dump({"classes": names, "class_weights": listed, "lr": 0.003, "epochs": 8, "batch": 64, "seed": 4}, f, indent=2)
