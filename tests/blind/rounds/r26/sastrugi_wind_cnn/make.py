import json
import os

import numpy as np

rng = np.random.default_rng(9)
SIZE = 24
yy, xx = np.mgrid[0:SIZE, 0:SIZE]
east, north = xx - SIZE / 2, SIZE / 2 - yy


def scene(axis_deg):
    a = np.deg2rad(axis_deg)
    across = east * np.cos(a) - north * np.sin(a)
    along = east * np.sin(a) + north * np.cos(a)
    period = rng.uniform(4.5, 8)
    img = np.zeros((SIZE, SIZE))
    for k in range(2):
        bend = rng.uniform(0.1, 0.5) * np.sin(along / rng.uniform(4, 9) + rng.uniform(0, 6.3))
        img += (0.8 ** k) * np.cos(2 * np.pi * (across + bend) / (period * 0.7 ** k) + rng.uniform(0, 6.3))
    img = img * rng.uniform(14, 30) + rng.uniform(140, 190) + rng.uniform(-1, 1) * east
    img += rng.normal(0, 9, img.shape)
    return np.clip(img, 0, 255).astype(np.uint8)


def season(n, dominant):
    axis = np.where(rng.random(n) < 0.3, rng.normal(dominant, 25, n), rng.uniform(0, 180, n)) % 180
    return np.stack([scene(a) for a in axis]), axis.round(1).astype(np.float32)


masts = {name: season(440, dom) for name, dom in (("mast_kohnen", 65), ("mast_domec", 40), ("mast_ridge", 120))}
for side in ("ok", "bug"):
    os.makedirs(side, exist_ok=True)
    for name, (img, axis) in masts.items():
        if side == "bug" and name == "mast_ridge":
            img = img[:, ::-1]
        np.savez_compressed(f"{side}/{name}.npz", image=img, axis_deg=axis)
    with open(f"{side}/masts.json", "w") as f:
        json.dump({"masts": list(masts), "pixel_m": 0.25, "axis": "degrees clockwise from grid north, 0..180"}, f)
