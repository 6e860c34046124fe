import json
import os
import sys

import numpy as np

CLASSES = ["water", "forest", "crop", "bare", "urban", "wetland"]
# reflectance of blue, green, red, near infrared
SPECTRA = np.array([[0.06, 0.05, 0.04, 0.03], [0.03, 0.06, 0.04, 0.28], [0.05, 0.09, 0.07, 0.32],
                    [0.12, 0.15, 0.19, 0.25], [0.13, 0.14, 0.15, 0.20], [0.05, 0.06, 0.05, 0.15]])
TEXTURE = [0.004, 0.02, 0.025, 0.015, 0.05, 0.02]


def tiles(rng, n, size=12):
    y = rng.integers(0, len(CLASSES), n)
    x = np.zeros((n, 4, size, size))
    for i, c in enumerate(y):
        base = SPECTRA[c] * rng.normal(1, 0.15, 4)
        x[i] = base[:, None, None] + rng.normal(0, TEXTURE[c], (1, size, size)) + rng.normal(0, 0.01, (4, size, size))
        if rng.random() < 0.3:
            other = SPECTRA[rng.integers(len(CLASSES))]
            edge = int(rng.integers(2, 5))
            x[i, :, :edge] = other[:, None, None] + rng.normal(0, 0.01, (4, edge, size))
        x[i] *= rng.normal(1, 0.08)
    return np.clip(x, 0, 1), y


def write(dest, mode):
    os.makedirs(os.path.join(dest, "data"), exist_ok=True)
    rng = np.random.default_rng(90)
    for name, n in (("train", 3000), ("val", 600)):
        x, y = tiles(rng, n)
        np.savez_compressed(os.path.join(dest, "data", f"{name}.npz"), tiles=x.astype(np.float32), label=y)
        if name == "train":
            mean, std = x.mean(axis=(0, 2, 3)), x.std(axis=(0, 2, 3))
    scale = 10000.0 if mode == "bug" else 1.0
    stats = {"bands": ["B02", "B03", "B04", "B08"], "mean": [round(float(m) * scale, 6) for m in mean],
             "std": [round(float(s) * scale, 6) for s in std], "classes": CLASSES}
    with open(os.path.join(dest, "data", "stats.json"), "w") as fh:
        json.dump(stats, fh, indent=1)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        write(sys.argv[1], sys.argv[2])
    else:
        here = os.path.dirname(os.path.abspath(__file__))
        for mode in ("bug", "ok"):
            write(os.path.join(here, mode), mode)
