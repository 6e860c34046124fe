"""Writes bug/ and ok/: historian.csv (hourly), recent.csv (later period)."""
import csv, os
import numpy as np
HERE = os.path.dirname(os.path.abspath(__file__))


def series(n, seed):
    rng = np.random.default_rng(seed)
    h = np.arange(n)
    amb = 12 + 7 * np.sin(2 * np.pi * h / 24 - 2) + np.cumsum(rng.normal(0, 0.3, n)) * 0.3
    press = 1013 + np.convolve(rng.normal(0, 3, n), np.ones(12) / 3.5, "same")
    vac = 50 + 0.9 * amb + rng.normal(0, 1.5, n)
    load = 470 - 1.7 * amb - 0.25 * (vac - 60) + 0.35 * (press - 1013) + 6 * np.sin(2 * np.pi * h / 24) + rng.normal(0, 1.2, n)
    return np.column_stack([h, amb, vac, press, load]).round(2)


for name in ("bug", "ok"):
    d = os.path.join(HERE, name)
    os.makedirs(d, exist_ok=True)
    hist, recent = series(2500, 1), series(800, 2)
    rng = np.random.default_rng(5)
    for col in (1, 2, 3):
        for start in rng.integers(30, 2400, 9):
            hist[start:start + rng.integers(2, 9), col] = np.nan
    for col in (1, 2, 3):
        bad = np.isnan(hist[:, col])
        if name == "bug":
            hist[bad, col] = -9999.0
        else:
            hist[bad, col] = np.interp(hist[bad, 0], hist[~bad, 0], hist[~bad, col]).round(2)
    for fn, tab in (("historian.csv", hist), ("recent.csv", recent)):
        with open(os.path.join(d, fn), "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["hour", "ambient_c", "vacuum", "pressure_mbar", "output_mw"])
            w.writerows(tab.tolist())
