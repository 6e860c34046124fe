"""Synthetic chest films (24 x 24) with or without an opacity, left or right; writes bug/ and ok/."""
import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
rng = np.random.default_rng(9)
S = 24
yy, xx = np.mgrid[0:S, 0:S]


def film(kind):
    dx, dy = rng.normal(0, 0.7, 2)
    img = 150 + 0 * xx
    for cx in (6.5, 16.5):
        img = img - 80 * np.exp(-(((xx - cx - dx) / 3.4) ** 2 + ((yy - 11.5 - dy) / 7.0) ** 2) ** 2)
    img = img + 40 * np.exp(-(((xx - 13.5 - dx) / 2.6) ** 2 + ((yy - 15 - dy) / 3.0) ** 2))
    for r in range(3, S, 5):
        img = img + 10 * np.exp(-((yy - r - dy - 0.02 * (xx - 12) ** 2) / 0.8) ** 2)
    if kind:
        cx = (6.5 if kind == 1 else 16.5) + dx + rng.uniform(-1.5, 1.5)
        cy = 11.5 + dy + rng.uniform(-5, 5)
        img = img + rng.uniform(35, 60) * np.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / rng.uniform(3, 7))
    img = img * rng.uniform(0.85, 1.15) + rng.normal(0, 11, img.shape)
    return np.clip(img, 0, 255).astype(np.uint8)


def block(n):
    y = rng.integers(0, 3, n)
    return np.stack([film(k) for k in y]), y.astype(np.uint8)


train, test = block(900), block(500)
recipe = {
    "model": {"width": 16, "dropout": 0.2},
    "augment": {"shift": 1, "gain": 0.1, "noise": 0.03, "hflip": 0.0},
    "train": {"epochs": 14, "batch_size": 32, "lr": 0.002, "seed": 7},
    "classes": ["clear", "opacity_left", "opacity_right"],
}
for name, p in (("ok", 0.0), ("bug", 0.5)):
    d = HERE / name
    d.mkdir(exist_ok=True)
    recipe["augment"]["hflip"] = p
    (d / "recipe.json").write_text(json.dumps(recipe, indent=2))
    np.savez_compressed(d / "films.npz", x_train=train[0], y_train=train[1], x_test=test[0], y_test=test[1])
