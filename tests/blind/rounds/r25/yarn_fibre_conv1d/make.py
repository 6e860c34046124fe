"""NIR spectra of yarn swatches: array and swatch list from the spectrometer, wool share from the wet lab."""
import csv
import json
import os

import numpy as np

N = 1500
WL = np.linspace(1100, 2300, 120)


def band(center, width):
    return np.exp(-(((WL - center) / width) ** 2))


WOOL = 0.55 * band(1510, 35) + 0.5 * band(1735, 28) + 0.8 * band(2055, 45) + 0.5 * band(2180, 30)
COTTON = 0.8 * band(1490, 60) + 0.4 * band(1590, 30) + 1.0 * band(2100, 55)
POLY = 0.9 * band(1660, 22) + 0.6 * band(2130, 25) + 0.5 * band(2255, 25)


def swatches():
    rng = np.random.default_rng(77)
    rows, spectra = [], []
    for k in range(1, N + 1):
        mix = rng.dirichlet([1.1, 1.0, 0.8])
        twist = rng.uniform(250, 900)
        depth = rng.uniform(0.7, 1.3)
        curve = depth * (mix[0] * WOOL + mix[1] * COTTON + mix[2] * POLY)
        curve = curve + rng.uniform(0.1, 0.5) + rng.normal(0, 0.15) * (WL - 1700) / 600
        curve = curve + rng.normal(0, 0.012, WL.size)
        spectra.append(curve)
        rows.append((f"YS-{k}", round(twist), round(100 * mix[0] + rng.normal(0, 0.8), 1)))
    return rows, np.stack(spectra).astype(np.float32)


def write(folder, order_of_list):
    os.makedirs(folder, exist_ok=True)
    rows, spectra = swatches()
    np.save(os.path.join(folder, "nir_absorbance.npy"), spectra)
    with open(os.path.join(folder, "nir_swatches.txt"), "w") as f:
        f.write("\n".join(order_of_list([r[0] for r in rows])) + "\n")
    lab = list(rows)
    np.random.default_rng(5).shuffle(lab)
    with open(os.path.join(folder, "lab_results.csv"), "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["swatch", "twist_per_m", "wool_pct"])
        w.writerows(lab)
    with open(os.path.join(folder, "settings.json"), "w") as f:
        json.dump({"seed": 9, "epochs": 25, "batch": 64, "lr": 0.002, "channels": 24, "val_share": 0.2}, f, indent=1)


write("ok", lambda names: names)
# the list was written anew later from a directory listing, which sorts YS-10 before YS-2; the array kept its order
write("bug", lambda names: sorted(names))
