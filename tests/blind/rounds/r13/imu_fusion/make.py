"""Writes bug/ and ok/: session/{accel,gyro,label}.csv for training and field/{...}.csv for evaluation."""
import os
import numpy as np
HERE = os.path.dirname(os.path.abspath(__file__))


def record(d, secs, seed, boot):
    os.makedirs(d, exist_ok=True)
    rng = np.random.default_rng(seed)
    ta = np.arange(0, secs, 0.1)
    tg = np.arange(0, secs, 0.08)
    knots = np.arange(0, secs + 4, 2.0)
    va, vg = rng.integers(0, 2, len(knots)), rng.integers(0, 2, len(knots))
    at = lambda v, t: v[(t / 2).astype(int)]
    acc = np.outer(at(va, ta) * 2 - 1, [1.0, -0.5, 0.3]) + rng.normal(0, 0.9, (len(ta), 3))
    gyr = np.outer(at(vg, tg) * 2 - 1, [0.4, 1.0, -0.7]) + rng.normal(0, 0.9, (len(tg), 3))
    lab = at(va, ta) * 2 + at(vg, ta)
    sv = lambda fn, *c: np.savetxt(os.path.join(d, fn), np.column_stack(c), fmt="%.3f", delimiter=",")
    sv("accel.csv", 1000 + ta, acc)
    sv("gyro.csv", 1000 + tg + boot, gyr)
    sv("label.csv", 1000 + ta, lab)


for name in ("bug", "ok"):
    record(os.path.join(HERE, name, "session"), 320, 1, 37.4 if name == "bug" else 0.0)
    record(os.path.join(HERE, name, "field"), 100, 2, 0.0)
