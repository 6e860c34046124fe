"""Gloss measurements of chocolate lots with the cooling curve of each lot, split by production week."""
import csv
import os

import numpy as np

rng = np.random.default_rng(2210)
POINTS = 48
HEAD = ["viscosity_pas", "cocoa_butter_pct", "mould_temp_c"] + [f"t{i:02d}_c" for i in range(POINTS)] + ["gloss_gu"]


def lot():
    visc = rng.normal(3.1, 0.35)
    butter = rng.normal(32.0, 1.6)
    mould = rng.normal(26.5, 1.2)
    low = rng.normal(27.2, 0.55)
    when = rng.uniform(14, 26)
    hold = rng.normal(31.0, 0.6)
    speed = rng.uniform(2.0, 5.0)
    t = np.arange(POINTS)
    fall = 45 - (45 - low) / (1 + np.exp(-(t - when) / speed))
    rise = (hold - low) / (1 + np.exp(-(t - when - 15) / 1.8))
    curve = fall + rise + rng.normal(0, 0.35, POINTS)
    gloss = (62 + 5.0 * np.tanh((hold - 31.0) * 1.5) - 6.0 * (low - 27.2) ** 2 - 4.0 * (mould - 26.5)
             + 2.0 * (speed - 3.5) + 1.5 * (butter - 32) + rng.normal(0, 6.0))
    return [round(float(v), 2) for v in (visc, butter, mould, *curve, gloss)]


WEEKS = [(w, lot()) for w in range(1, 41) for _ in range(12)]


def weeks(first, last):
    return [row for w, row in WEEKS if first <= w <= last]


def write(path, rows):
    with open(path, "w", newline="") as fh:
        w = csv.writer(fh)
        w.writerow(HEAD)
        w.writerows(rows)


def main():
    for folder, held in (("ok", (27, 40)),
                         ("bug", (19, 32))):
        os.makedirs(folder, exist_ok=True)
        write(os.path.join(folder, "train.csv"), weeks(1, 26))
        rows = weeks(*held)
        order = np.random.default_rng(5).permutation(len(rows))
        write(os.path.join(folder, "val.csv"), [rows[i] for i in order])


if __name__ == "__main__":
    main()
