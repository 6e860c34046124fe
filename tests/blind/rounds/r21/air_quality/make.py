"""Hourly records of a city's air quality stations."""
import csv
import os

import numpy as np

COLUMNS = ["hour", "no2", "co", "benzene", "traffic", "temp_c", "rel_hum", "wind_ms", "pressure_hpa", "pm25_next"]


def table(n, rng):
    hour = rng.integers(0, 24, n)
    traffic = 400 + 700 * np.exp(-((hour - 8) / 2.5) ** 2) + 800 * np.exp(-((hour - 18) / 3) ** 2) + rng.normal(0, 80, n)
    wind = rng.gamma(2.2, 1.4, n)
    temp = rng.normal(14, 8, n)
    hum = np.clip(65 - 0.8 * (temp - 14) + rng.normal(0, 10, n), 15, 100)
    press = rng.normal(1013, 8, n)
    mix = 1 / (0.6 + 0.35 * wind)
    no2 = 0.045 * traffic * mix + rng.normal(0, 3, n)
    co = 0.0011 * traffic * mix + rng.normal(0, 0.1, n)
    benzene = 0.004 * traffic * mix + rng.normal(0, 0.4, n)
    heating = np.clip(12 - temp, 0, None)
    pm = 6 + 0.02 * traffic * mix + 1.1 * heating * mix + 0.12 * (hum - 60) + 0.25 * (press - 1013) + rng.normal(0, 1.2, n)
    return np.stack([hour, no2, co, benzene, traffic, temp, hum, wind, press, np.clip(pm, 0, None)], 1)


rng = np.random.default_rng(77)
rows = table(4200, rng)
gaps = rng.random((len(rows), len(COLUMNS))) < 0.04
gaps[:, [0, -1]] = False

for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    with open(f"{side}/stations.csv", "w", newline="") as f:
        out = csv.writer(f)
        out.writerow(["station", "split"] + COLUMNS)
        for i, (r, g) in enumerate(zip(rows, gaps)):
            split = "train" if i % 5 else "test"
            cells = [f"{v:.2f}" for v in r]
            for j in np.flatnonzero(g):
                cells[j] = "-9999.00" if side == "bug" else ""
            out.writerow([f"S{i % 7}", split] + cells)
