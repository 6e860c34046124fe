"""Aerial tiles with soil (0), ditch (1) and grove (2); masks drawn at 4x and brought down to 24 x 24."""
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

HERE = Path(__file__).resolve().parent
rng = np.random.default_rng(33)
S, UP = 24, 4
B = S * UP
yy, xx = np.mgrid[0:B, 0:B]


def scene():
    m = np.zeros((B, B), np.uint8)
    for _ in range(rng.integers(4, 8)):
        cy, cx = rng.uniform(0, B, 2)
        a, b = rng.uniform(7, 15, 2)
        m[((yy - cy) / a) ** 2 + ((xx - cx) / b) ** 2 < 1] = 2
    if rng.random() < 0.6:
        t, c = rng.uniform(0, np.pi), rng.uniform(-25, 25)
        line = np.abs((xx - B / 2) * np.sin(t) + (yy - B / 2) * np.cos(t) - c) < rng.uniform(3, 5)
        m[line] = 1
    return m


COLOUR = np.array([[0.55, 0.45], [0.35, 0.62], [0.30, 0.35]])


def tile(m):
    light = rng.uniform(0.85, 1.15)
    img = COLOUR[m] * light
    img = img.reshape(S, UP, S, UP, 2).mean((1, 3))
    return np.clip((img + rng.normal(0, 0.06, img.shape)) * 255, 0, 255).astype(np.uint8)


def shrink(m, mode):
    t = torch.from_numpy(m).float()[None, None]
    kw = {"align_corners": False, "antialias": True} if mode == "bilinear" else {}
    return F.interpolate(t, (S, S), mode=mode, **kw)[0, 0].round().byte().numpy()


scenes = [scene() for _ in range(360)]
tiles = np.stack([tile(m) for m in scenes])
for name, mode in (("ok", "nearest-exact"), ("bug", "bilinear")):
    d = HERE / name
    d.mkdir(exist_ok=True)
    np.savez_compressed(d / "train.npz", tiles=tiles[:260], masks=np.stack([shrink(m, mode) for m in scenes[:260]]))
    np.savez_compressed(d / "test.npz", tiles=tiles[260:],
                        masks=np.stack([shrink(m, "nearest-exact") for m in scenes[260:]]))
