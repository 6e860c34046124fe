"""Hourly record of a show cave (radon, climate inside and outside) as written by its data logger."""
import csv
import os

import numpy as np

rng = np.random.default_rng(4)
HOURS = 24 * 170


def ar(n, phi, sd):
    out = np.zeros(n)
    for i in range(1, n):
        out[i] = phi * out[i - 1] + rng.normal(0, sd)
    return out


def record():
    h = np.arange(HOURS)
    outside = 11 + 7 * np.sin(2 * np.pi * h / (24 * 170)) + 4 * np.sin(2 * np.pi * h / 24) + ar(HOURS, 0.97, 0.5)
    slow = ar(HOURS, 0.95, 0.35)
    pressure = 968 + 4.0 * np.cumsum(slow - slow.mean()) / 20 + ar(HOURS, 0.9, 0.3)
    pressure = 968 + (pressure - pressure.mean()) / pressure.std() * 7.5
    visitors = np.where((h % 24 >= 9) & (h % 24 <= 17), rng.poisson(25, HOURS), 0)
    drip = np.exp(ar(HOURS, 0.99, 0.06)) * 20
    level = np.zeros(HOURS)
    level[0] = 2000
    for i in range(1, HOURS):
        pump = -260.0 * (pressure[i] - pressure[i - 1])
        draught = 28.0 * (outside[i - 1] - 9.5)
        level[i] = level[i - 1] + pump + 0.05 * (2000 + draught * 9 - level[i - 1]) + rng.normal(0, 30)
    return h, outside, pressure, visitors, drip, level.clip(150)


def main():
    h, outside, pressure, visitors, drip, radon = record()
    gap = np.zeros(HOURS, dtype=bool)
    while gap.mean() < 0.05:
        s = rng.integers(0, HOURS - 6)
        gap[s:s + rng.integers(1, 4)] = True
    cut = 24 * 125
    for folder, nodata in (("ok", ""),
                           ("bug", "-999.0")):
        os.makedirs(folder, exist_ok=True)
        for name, lo, hi in (("train.csv", 0, cut), ("val.csv", cut, HOURS)):
            with open(os.path.join(folder, name), "w", newline="") as fh:
                w = csv.writer(fh)
                w.writerow(["hour", "outside_c", "pressure_hpa", "visitors", "drip_per_min", "radon_bq_m3"])
                for i in range(lo, hi):
                    p = nodata if gap[i] else f"{pressure[i]:.1f}"
                    w.writerow([h[i], f"{outside[i]:.1f}", p, visitors[i], f"{drip[i]:.1f}", f"{radon[i]:.0f}"])


if __name__ == "__main__":
    main()
