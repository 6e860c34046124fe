"""Heart beats: beats.npy, labels.npy for training and a hand-checked set beside it."""
import json
import os

import numpy as np

N = 72
TYPES = ["normal", "pvc", "lbbb", "paced"]


def beat(kind, rng):
    t = np.linspace(-0.5, 0.5, N)

    def bump(c, w, a):
        return a * np.exp(-((t - c) / w) ** 2)

    j = rng.normal(0, 0.015)
    if kind == 0:
        s = bump(-0.2 + j, 0.04, 0.2) + bump(j, 0.02, 1.2) - bump(0.04 + j, 0.02, 0.3) + bump(0.25 + j, 0.06, 0.35)
    elif kind == 1:
        s = bump(j, 0.07, 1.1) - bump(0.18 + j, 0.08, 0.6)
    elif kind == 2:
        s = bump(-0.2 + j, 0.04, 0.2) + bump(-0.02 + j, 0.03, 0.8) + bump(0.05 + j, 0.03, 0.75) - bump(0.27 + j, 0.06, 0.3)
    else:
        s = bump(-0.12 + j, 0.006, 1.3) + bump(j, 0.06, 0.8) - bump(0.2 + j, 0.07, 0.35)
    return (s * rng.uniform(0.8, 1.2) + rng.normal(0, 0.1, N) + 0.1 * np.sin(2 * np.pi * t + rng.uniform(0, 6))).astype(np.float32)


def record(n, rng):
    y = rng.integers(0, len(TYPES), n)
    return np.stack([beat(k, rng) for k in y]), y


for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    rng = np.random.default_rng(61)
    x, y = record(2600, rng)
    xt, yt = record(700, rng)
    if side == "bug":
        y = np.insert(y, 140, y[140])[: len(x)]
    np.save(f"{side}/beats.npy", x)
    np.save(f"{side}/labels.npy", y)
    np.save(f"{side}/checked_beats.npy", xt)
    np.save(f"{side}/checked_labels.npy", yt)
    json.dump({"types": TYPES, "hz": 72, "lead": "II"}, open(f"{side}/meta.json", "w"))
