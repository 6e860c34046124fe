"""Grain images of finished hides, one folder per defect on the scanner PC, packed into one archive per split."""
import json
import os

import numpy as np

GRADES = ["clean", "tick_scar", "scratch", "vein", "brand_mark"]
SIZE = 24


def grain(rng):
    base = rng.normal(0.0, 1.0, (SIZE, SIZE))
    soft = (base + np.roll(base, 1, 0) + np.roll(base, 1, 1) + np.roll(base, (1, 1), (0, 1))) / 2.0
    return 128 + 14 * soft + rng.normal(0, 10)


def patch(grade, rng):
    img = grain(rng)
    yy, xx = np.mgrid[0:SIZE, 0:SIZE]
    depth = rng.uniform(35, 65)
    if grade == 1:
        for _ in range(rng.integers(4, 9)):
            cy, cx = rng.uniform(2, SIZE - 2, 2)
            img -= depth * np.exp(-((yy - cy) ** 2 + (xx - cx) ** 2) / 1.6)
    elif grade == 2:
        ang, off = rng.uniform(0, np.pi), rng.uniform(-6, 6)
        d = (xx - 12) * np.sin(ang) - (yy - 12) * np.cos(ang) - off
        img -= depth * np.exp(-(d / 0.8) ** 2)
    elif grade == 3:
        ph, amp, off = rng.uniform(0, 6.3), rng.uniform(2, 4), rng.uniform(7, 17)
        a, b = (xx, yy) if rng.random() < 0.5 else (yy, xx)
        img -= 0.8 * depth * np.exp(-((b - off - amp * np.sin(a * 0.55 + ph)) / 1.3) ** 2)
    elif grade == 4:
        cy, cx = rng.uniform(8, 16, 2)
        r = np.sqrt((yy - cy) ** 2 + (xx - cx) ** 2)
        img -= depth * np.exp(-((r - rng.uniform(4, 6.5)) / 0.9) ** 2)
    return np.clip(img, 0, 255).astype(np.uint8)


def split(per_grade, rng):
    imgs, labels = [], []
    for g in range(len(GRADES)):
        for _ in range(per_grade):
            imgs.append(patch(g, rng))
            labels.append(g)
    return np.stack(imgs), np.array(labels, dtype=np.int64)


def write(folder, settings):
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(411)
    for name, n in (("train", 560), ("val", 120)):
        x, y = split(n, rng)
        np.savez(os.path.join(folder, name + ".npz"), image=x, grade=y)
    with open(os.path.join(folder, "grades.txt"), "w") as f:
        f.write("\n".join(GRADES) + "\n")
    with open(os.path.join(folder, "run.json"), "w") as f:
        json.dump(settings, f, indent=2)


base = {
    "seed": 3,
    "epochs": 6,
    "lr": 0.006,
    "weight_decay": 0.0001,
    "width": 12,
    "loader": {"batch": 32, "shuffle_buffer": 4096, "drop_last": True},
}
write("ok", base)
# the settings file comes from the scanner PC with little memory, where the reader was told to hold few images at a time
small = dict(base, loader=dict(base["loader"], shuffle_buffer=64))
write("bug", small)
