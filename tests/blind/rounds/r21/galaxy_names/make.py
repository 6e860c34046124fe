"""Galaxy stamps. train.npz has ids from the survey's pipeline, test.npz the names volunteers gave; classes.json lists the names."""
import json
import os

import numpy as np

ORDER = ["spiral", "elliptical", "edge_on", "merger", "irregular"]     # the pipeline's ids 0..4
SIDE = 18
yy, xx = np.mgrid[0:SIDE, 0:SIDE] - (SIDE - 1) / 2


def stamp(name, rng):
    a = rng.uniform(0, np.pi)
    u, v = xx * np.cos(a) + yy * np.sin(a), -xx * np.sin(a) + yy * np.cos(a)
    r, th = np.hypot(u, v), np.arctan2(v, u)
    if name == "spiral":
        img = np.exp(-r / 4) * (0.6 + 0.8 * np.cos(2 * th - 0.9 * r)) + np.exp(-(r / 1.5) ** 2)
    elif name == "elliptical":
        img = 1.3 * np.exp(-np.hypot(u, v / rng.uniform(0.65, 0.95)) / 2.8)
    elif name == "edge_on":
        img = 1.2 * np.exp(-np.abs(u) / 5 - np.abs(v) / 0.9)
    elif name == "merger":
        img = np.exp(-np.hypot(u - 3.5, v) / 1.8) + 0.8 * np.exp(-np.hypot(u + 3.5, v) / 1.8)
    else:
        img = sum(0.7 * np.exp(-(np.hypot(u - p, v - q) / 1.6) ** 2) for p, q in rng.normal(0, 3.2, (5, 2)))
    return (img * rng.uniform(0.8, 1.2) + rng.normal(0, 0.12, img.shape)).astype(np.float32)


def draw(n, rng):
    y = rng.integers(0, 5, n)
    return np.stack([stamp(ORDER[k], rng) for k in y]), y


for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    rng = np.random.default_rng(33)
    x, y = draw(2200, rng)
    xt, yt = draw(700, rng)
    np.savez(f"{side}/train.npz", image=x, label=y, survey_name=np.array(ORDER)[y])
    np.savez(f"{side}/test.npz", image=xt, name=np.array(ORDER)[yt])
    names = sorted(ORDER) if side == "bug" else ORDER
    json.dump(names, open(f"{side}/classes.json", "w"))
