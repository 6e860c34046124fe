"""Write the sapphire treatment data set: one folder per export of the lab database."""
import csv
import os

import numpy as np

TREATMENTS = ["untreated", "heated", "beryllium_diffused", "glass_filled"]
WAVELENGTHS = np.linspace(350, 900, 111)


def band(centre, width):
    return np.exp(-0.5 * ((WAVELENGTHS - centre) / width) ** 2)


def spectrum(kind, rng):
    iron = rng.uniform(0.3, 1.4)
    chromium = rng.uniform(0.0, 0.6)
    charge_transfer = rng.uniform(0.3, 1.0)
    a = iron * (0.5 * band(376, 7) + 0.35 * band(388, 8) + 0.6 * band(450, 11))
    a += chromium * (0.8 * band(410, 28) + 0.7 * band(560, 34))
    if kind == "untreated":
        a += charge_transfer * band(580, 60) + 0.35 * band(880, 70)
    elif kind == "heated":
        a += charge_transfer * band(568, 52) + 0.12 * band(870, 60)
    elif kind == "beryllium_diffused":
        a += 0.5 * charge_transfer * band(575, 58) + rng.uniform(0.3, 0.6) * band(465, 48)
    else:
        a += 0.8 * charge_transfer * band(578, 58) + rng.uniform(0.15, 0.4) * np.linspace(1, 0, 111) ** 2
        a += 0.25 * band(690, 40)
    path_mm = rng.uniform(1.5, 4.0)
    a = a * path_mm / 2.5 + rng.normal(0.1, 0.04)
    return a + rng.normal(0, 0.05, a.shape)


def main():
    rng = np.random.default_rng(411)
    n = 1100
    ids = [f"SAP-{i + 1:04d}" for i in range(n)]
    kinds = [TREATMENTS[k] for k in rng.choice(4, n, p=[0.3, 0.35, 0.15, 0.2])]
    carat = rng.lognormal(0.3, 0.5, n)
    spectra = [spectrum(k, rng) for k in kinds]
    splits = np.where(rng.random(n) < 0.25, "validation", "train")

    for side in ("bug", "ok"):
        os.makedirs(side, exist_ok=True)
        graded = list(kinds)
        if side == "bug":
            graded = graded[:17] + graded[18:] + ["heated"]
        with open(os.path.join(side, "spectra.csv"), "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["stone_id", "carat"] + [f"nm_{x:.0f}" for x in WAVELENGTHS])
            for i in range(n):
                w.writerow([ids[i], f"{carat[i]:.2f}"] + [f"{v:.4f}" for v in spectra[i]])
        with open(os.path.join(side, "grading.csv"), "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["stone_id", "treatment", "split"])
            for i in range(n):
                w.writerow([ids[i], graded[i], splits[i]])


if __name__ == "__main__":
    main()
