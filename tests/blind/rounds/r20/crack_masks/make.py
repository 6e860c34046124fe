import os

import numpy as np
from PIL import Image

S = 48
rng = np.random.default_rng(8)


def sample():
    img = rng.normal(150, 6, (S // 4, S // 4)).repeat(4, 0).repeat(4, 1) + rng.normal(0, 9, (S, S))
    mask = np.zeros((S, S), bool)
    for _ in range(rng.integers(1, 3)):
        y, x = rng.uniform(4, S - 4, 2)
        a = rng.uniform(0, 2 * np.pi)
        for _ in range(rng.integers(35, 80)):
            a += rng.normal(0, 0.25)
            y, x = y + np.sin(a), x + np.cos(a)
            iy, ix = int(y), int(x)
            if not (1 <= iy < S - 1 and 1 <= ix < S - 1):
                break
            mask[iy:iy + 2, ix:ix + 2] = True
    img[mask] -= rng.uniform(25, 50)
    for _ in range(rng.integers(2, 7)):
        cy, cx, r = rng.uniform(0, S), rng.uniform(0, S), rng.uniform(1, 3)
        yy, xx = np.mgrid[0:S, 0:S]
        img[((yy - cy) ** 2 + (xx - cx) ** 2 < r * r) & ~mask] -= rng.uniform(25, 50)
    img = np.clip(img // 8 * 8, 0, 255).astype(np.uint8)
    return img, mask


items = {"train": [sample() for _ in range(180)], "test": [sample() for _ in range(50)]}
from_cad = rng.random(180) < 0.75
for side in ("bug", "ok"):
    for split, rows in items.items():
        os.makedirs(f"{side}/{split}/images", exist_ok=True)
        os.makedirs(f"{side}/{split}/masks", exist_ok=True)
        for i, (img, mask) in enumerate(rows):
            Image.fromarray(img).save(f"{side}/{split}/images/wall_{i:03d}.png", optimize=True)
            if side == "bug" and split == "train" and from_cad[i]:
                mask = mask[::-1]
            Image.fromarray((mask * 255).astype(np.uint8)).convert("1").save(f"{side}/{split}/masks/wall_{i:03d}.png")
