"""Write the glaze firing log of the tile works with the scaler file used by the gloss model."""
import csv
import json
import os

import numpy as np

COLUMNS = ["peak_temp", "hold_min", "cool_rate", "silica", "alumina", "boron", "lime", "alkali", "o2_pct",
           "glaze_mm"]


def tile_works(rng, n):
    peak = rng.normal(1205, 22, n)
    hold = rng.gamma(6, 4, n)
    cool = rng.normal(145, 30, n)
    silica = rng.normal(58, 3.5, n)
    alumina = rng.normal(12, 1.8, n)
    boron = rng.normal(6, 1.6, n)
    lime = rng.normal(9, 1.7, n)
    alkali = rng.normal(7.5, 1.2, n)
    o2 = rng.normal(6.5, 1.5, n)
    mm = rng.normal(0.55, 0.09, n)
    x = np.stack([peak, hold, cool, silica, alumina, boron, lime, alkali, o2, mm], 1)
    melt = (peak - 1205) / 22 + 0.5 * (hold - 24) / 10 + 0.8 * (boron - 6) / 1.6 + 0.5 * (alkali - 7.5) / 1.2
    ratio = silica / alumina
    gloss = 62 + 15 * np.tanh(0.7 * melt) + 12 * np.tanh((ratio - 4.9) / 0.8) - 6 * np.maximum(0, melt - 1.2) ** 2 / 2
    gloss += 4 * (cool - 145) / 30 * np.tanh((lime - 9) / 1.7) - 2.0 * (o2 - 6.5) / 1.5 + 2.5 * (mm - 0.55) / 0.09
    return x, gloss + rng.normal(0, 1.5, n)


def studio(rng, n):
    peak = rng.normal(2232, 12, n)
    hold = rng.gamma(9, 0.05, n)
    cool = rng.normal(300, 45, n)
    silica = rng.normal(3.3, 0.35, n)
    alumina = rng.normal(0.38, 0.05, n)
    boron = rng.normal(0.25, 0.08, n)
    lime = rng.normal(0.62, 0.09, n)
    alkali = rng.normal(0.33, 0.06, n)
    o2 = rng.normal(0.065, 0.012, n)
    mm = rng.normal(0.022, 0.003, n)
    return np.stack([peak, hold, cool, silica, alumina, boron, lime, alkali, o2, mm], 1)


def main():
    rng = np.random.default_rng(19)
    x, gloss = tile_works(rng, 1500)
    other = studio(rng, 800)
    split = np.where(rng.random(1500) < 0.2, "val", "train")
    for side in ("bug", "ok"):
        os.makedirs(side, exist_ok=True)
        with open(os.path.join(side, "firings.csv"), "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["firing_no"] + COLUMNS + ["gloss_gu", "split"])
            for i in range(len(x)):
                w.writerow([10000 + i] + [f"{v:.4f}" for v in x[i]] + [f"{gloss[i]:.2f}", split[i]])
        source = {"ok": x[split == "train"], "bug": other}[side]
        with open(os.path.join(side, "scaler.json"), "w") as f:
            json.dump({"columns": COLUMNS, "mean": source.mean(0).round(5).tolist(),
                       "std": source.std(0).round(5).tolist()}, f, indent=1)


if __name__ == "__main__":
    main()
