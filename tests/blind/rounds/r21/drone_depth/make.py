"""Echo recordings of a drone's downward ultrasonic sensor with the height of the reference laser."""
import os

import numpy as np

SAMPLES = 80


def flight(n, rng):
    height = rng.uniform(40, 460, n)
    t = np.arange(SAMPLES)
    centre = height / 6.2
    strength = rng.uniform(0.5, 1.2, n) / (1 + height / 350)
    echo = strength[:, None] * np.exp(-((t - centre[:, None]) / 2.2) ** 2)
    ring = 0.8 * np.exp(-t / 2.5)
    clutter = 0.15 * rng.random((n, 1)) * np.exp(-((t - rng.uniform(0, SAMPLES, (n, 1))) / 1.5) ** 2)
    wave = echo + ring + clutter + rng.normal(0, 0.05, (n, SAMPLES))
    return (wave * 1000).astype(np.int16), np.round(height).astype(np.int64)


for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    rng = np.random.default_rng(246)
    for part, n in (("train", 2400), ("val", 600)):
        echoes, cm = flight(n, rng)
        np.save(f"{side}/{part}_echo.npy", echoes)
        narrow = side == "bug" and part == "train"
        np.save(f"{side}/{part}_height_cm.npy", cm.astype(np.uint8 if narrow else np.uint16))
