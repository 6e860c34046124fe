import csv
import os

import numpy as np

rng = np.random.default_rng(66)
C, D, N, T = 6, 40, 2600, 900
wave = np.linspace(0, 1, D)
peaks = rng.uniform(0.1, 0.9, (C, 3))
height = rng.uniform(0.5, 1.0, (C, 3))


def leaf(c):
    x = sum(h * np.exp(-0.5 * ((wave - p - rng.normal(0, 0.02)) / 0.06) ** 2) for p, h in zip(peaks[c], height[c]))
    return x * rng.uniform(0.6, 1.4) + rng.normal(0, 0.3) * wave + rng.normal(0, 0.2, D)


y = rng.integers(0, C, N + T)
x = np.stack([leaf(c) for c in y]).astype(np.float32)
known = rng.random(N) < 0.12
for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    np.save(f"{side}/spectra_train.npy", x[:N])
    np.save(f"{side}/spectra_test.npy", x[N:])
    unknown = 0 if side == "bug" else -1
    for name, lab in (("labels_train.csv", np.where(known, y[:N], unknown)), ("labels_test.csv", y[N:])):
        with open(f"{side}/{name}", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["leaf", "disease_code"])
            w.writerows((i, int(v)) for i, v in enumerate(lab))
