"""Writes small satellite tiles (green, near infrared, short-wave infrared) with glacier masks."""
import json
import os

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
N, SIZE = 420, 24


def smooth_noise(rng, size, cells):
    coarse = rng.normal(size=(cells, cells))
    pos = np.linspace(0, cells - 1.001, size)
    i = pos.astype(int)
    f = pos - i
    rows = coarse[i] * (1 - f)[:, None] + coarse[i + 1] * f[:, None]
    return rows[:, i] * (1 - f) + rows[:, i + 1] * f


def tile(rng):
    ice = smooth_noise(rng, SIZE, 4) + rng.normal(0, 0.4) > 0.1
    height = smooth_noise(rng, SIZE, 5)
    snow_off_ice = (smooth_noise(rng, SIZE, 7) > 0.9) & ~ice
    debris = (smooth_noise(rng, SIZE, 6) > 0.8) & ice
    bands = np.empty((3, SIZE, SIZE))
    bands[0] = np.where(ice, 0.62, 0.28) + 0.30 * snow_off_ice - 0.22 * debris
    bands[1] = np.where(ice, 0.50, 0.32) + 0.28 * snow_off_ice - 0.16 * debris
    bands[2] = np.where(ice, 0.10, 0.34) - 0.10 * snow_off_ice + 0.08 * debris
    bands *= 1.0 + 0.12 * height
    gain = rng.uniform(0.75, 1.2)
    bands = bands * gain + rng.normal(0, 0.07, bands.shape)
    return np.clip(bands * 255, 0, 255).astype(np.uint8), ice.astype(np.uint8), gain


def main():
    rng = np.random.default_rng(77)
    images, masks, gain = map(np.stack, zip(*[tile(rng) for _ in range(N)]))
    order = rng.permutation(N)
    split = {"train": sorted(map(int, order[:320])), "val": sorted(map(int, order[320:]))}
    second = rng.random(N) < np.where(gain > 0.95, 0.85, 0.15)
    for side in ("bug", "ok"):
        out = os.path.join(HERE, side)
        os.makedirs(out, exist_ok=True)
        m = masks.copy()
        if side == "bug":
            m[second] *= 255
        np.save(os.path.join(out, "images.npy"), images)
        np.save(os.path.join(out, "masks.npy"), m)
        with open(os.path.join(out, "split.json"), "w") as f:
            json.dump(split, f)


if __name__ == "__main__":
    main()
