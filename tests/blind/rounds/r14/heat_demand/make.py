"""Writes the hourly heat meters of three sites."""
import csv
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).parent


def readings(rng, n):
    temp = rng.uniform(-12, 28, n)
    wind = rng.gamma(2.0, 2.0, n)
    occ = rng.uniform(0, 1, n)
    area = rng.choice([0.8, 1.0, 1.4], n)
    load = area * (np.maximum(18 - temp, 0) * 2.1 + 0.05 * wind * np.maximum(18 - temp, 0) + 6 * occ) + 8
    return temp, wind, occ, area, load + rng.normal(0, 1.5, n)


def write(folder, broken):
    rng = np.random.default_rng(40)
    folder.mkdir(exist_ok=True)
    for part, n in (("train", 700), ("test", 300)):
        for site in ("aalen", "borken", "celle"):
            temp, wind, occ, area, load = readings(rng, n)
            if broken and part == "train" and site == "borken":
                temp = temp * 9 / 5 + 32
            with open(folder / f"{part}_{site}.csv", "w", newline="") as f:
                w = csv.writer(f)
                w.writerow(["temp_out", "wind", "occupancy", "area", "load_kw"])
                for row in zip(temp, wind, occ, area, load):
                    w.writerow([f"{v:.2f}" for v in row])


for name in ("bug", "ok"):
    write(HERE / name, name == "bug")
