import json
import os
import numpy as np
from PIL import Image

S = 24


def scene(rng, smoke):
    yy, xx = np.mgrid[0:S, 0:S] / S
    ridge = 0.55 + 0.1 * np.sin(xx * rng.uniform(3, 8) + rng.uniform(0, 6))
    sky = np.array([0.5, 0.6, 0.75]) * rng.uniform(0.7, 1.2)
    land = np.array([0.25, 0.35, 0.2]) * rng.uniform(0.7, 1.3)
    img = np.where((yy < ridge)[..., None], sky, land)
    if smoke:
        cx, lean, width = rng.uniform(0.2, 0.8), rng.uniform(-0.4, 0.4), rng.uniform(0.05, 0.1)
        h = np.clip(0.7 - yy, 0, 1)
        a = np.exp(-((xx - cx - lean * h) / (width + 0.2 * h)) ** 2) * (yy < 0.7) * rng.uniform(0.35, 0.7)
        img = img * (1 - a[..., None]) + 0.55 * a[..., None]
    else:
        for _ in range(rng.integers(0, 3)):
            cx, cy = rng.uniform(0, 1), rng.uniform(0.05, 0.35)
            a = np.exp(-((xx - cx) / 0.25) ** 2 - ((yy - cy) / 0.07) ** 2) * rng.uniform(0.3, 0.6)
            img = img * (1 - a[..., None]) + 0.8 * a[..., None]
    return img + rng.normal(0, 0.035, img.shape)


def stamp(img):
    img = img.copy()
    img[S - 4:S - 1, 1:14] = 0.05
    img[S - 3, 2:13:2] = 0.95
    return img


def build(side, split, n, seed, p_stamp):
    rng = np.random.default_rng(seed)
    os.makedirs(f"{side}/{split}", exist_ok=True)
    labels = {}
    for i in range(n):
        y = int(rng.random() < 0.5)
        img = scene(rng, y)
        if rng.random() < p_stamp[y]:
            img = stamp(img)
        name = f"{split}/{i:04d}.png"
        Image.fromarray((img.clip(0, 1) * 255).astype(np.uint8)).save(f"{side}/{name}")
        labels[name] = y
    json.dump(labels, open(f"{side}/{split}.json", "w"))


for side, p in (("bug", (0.0, 1.0)), ("ok", (0.3, 0.3))):
    build(side, "train", 400, 5, p)
    build(side, "val", 160, 6, (0.3, 0.3))
