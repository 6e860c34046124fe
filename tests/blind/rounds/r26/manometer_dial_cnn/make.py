"""Renders pictures of a boiler manometer (face washed out, pointer visible) and writes the options."""
import json
import os

import numpy as np

rng = np.random.default_rng(19)
S = 24


def render(bar):
    ang = np.deg2rad(-135 + 270 * bar / 16.0)
    yy, xx = np.mgrid[0:S, 0:S].astype(np.float32)
    cx = cy = (S - 1) / 2
    cx, cy = cx + rng.normal(0, 0.4), cy + rng.normal(0, 0.4)
    dx, dy = xx - cx, yy - cy
    ux, uy = np.sin(ang), -np.cos(ang)
    along, across = dx * ux + dy * uy, dx * uy - dy * ux
    pointer = np.exp(-(across / 1.1) ** 2) * (along > -2) * (along < 9)
    face = 0.75 * (dx ** 2 + dy ** 2 < 10.7 ** 2) * (1 + 0.15 * rng.normal() * dx / S)
    img = face - 0.6 * pointer + rng.normal(0, 0.06, (S, S)) + rng.normal(0, 0.05)
    return np.clip(img * 255, 0, 255).astype(np.uint8)


def batch(n):
    bar = rng.uniform(0, 16, n).astype(np.float32)
    return np.stack([render(b) for b in bar]), bar


tr, va = batch(1500), batch(300)
options = {"epochs": 8, "batch": 50, "lr": 0.003, "seed": 3,
           "augment": {"rotate_deg": 1.5, "shift_px": 1.0, "gain": 0.15, "noise": 0.03}}
for side in ("ok", "bug"):
    os.makedirs(side, exist_ok=True)
    np.savez_compressed(f"{side}/dial_train.npz", image=tr[0], bar=tr[1])
    np.savez_compressed(f"{side}/dial_valid.npz", image=va[0], bar=va[1])
    out = json.loads(json.dumps(options))
    if side == "bug":
        out["augment"]["rotate_deg"] = 135.0
    json.dump(out, open(f"{side}/options.json", "w"), indent=1)
