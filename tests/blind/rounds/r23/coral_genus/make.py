import json
import os
import sys

import numpy as np

sys.dont_write_bytecode = True
from train import photo_features

BASE = os.path.dirname(os.path.abspath(__file__))
GENERA = ["acropora", "favites", "montipora", "pocillopora", "porites"]
COLOUR = np.array([[0.62, 0.50, 0.36], [0.45, 0.52, 0.36], [0.56, 0.44, 0.48], [0.64, 0.46, 0.46], [0.50, 0.50, 0.34]])
FREQ = [0.9, 1.5, 0.5, 1.2, 0.3]


def photo(rng, g, s=20):
    yy, xx = np.mgrid[0:s, 0:s]
    th = rng.normal(0.5 * g, 0.4)
    f = FREQ[g] * rng.uniform(0.8, 1.2)
    tex = np.sin(f * (xx * np.cos(th) + yy * np.sin(th)) + rng.uniform(0, 6))
    if g in (1, 3):
        tex = tex * np.sin(f * (yy * np.cos(th) - xx * np.sin(th)) + rng.uniform(0, 6))
    img = COLOUR[g] + rng.normal(0, 0.06, 3) + 0.10 * tex[..., None] + rng.normal(0, 0.07, (s, s, 3))
    img = img * rng.uniform(0.75, 1.1) + np.array([0, 0.02, 0.08]) * rng.uniform(0, 1.5)
    return (np.clip(img, 0, 1) * 255).astype(np.uint8)


rng = np.random.default_rng(1770)
N, CHANGED = 1400, 60
genus = rng.integers(0, 5, N + CHANGED)
photos = np.stack([photo(rng, g) for g in genus])
dropped = np.sort(rng.choice(np.arange(400, N), CHANGED, replace=False))
dropped[0] = 400
keep = np.setdiff1d(np.arange(N + CHANGED), dropped)
first_survey = np.arange(N)

for side in ("bug", "ok"):
    d = os.path.join(BASE, side)
    os.makedirs(os.path.join(d, "cache"), exist_ok=True)
    np.save(os.path.join(d, "photos.npy"), photos[keep])
    with open(os.path.join(d, "annotations.tsv"), "w") as f:
        f.write("photo\ttransect\tgenus\n")
        for r, i in enumerate(keep):
            f.write(f"R{i:04d}\t{1 + r // 100}\t{GENERA[genus[i]]}\n")
    np.save(os.path.join(d, "cache", "features.npy"), photo_features(photos[keep if side == "ok" else first_survey]))
    with open(os.path.join(d, "setup.json"), "w") as f:
        json.dump({"seed": 19, "val_share": 0.25, "width": 64, "dropout": 0.2, "lr": 0.002, "weight_decay": 0.01,
                   "batch": 42, "epochs": 21}, f)
