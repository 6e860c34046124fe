import csv
import json
import os

import numpy as np

HZ = 12
MAX_LEN = 44
FAULTS = ["clean", "early_catch", "rushed_slide", "washout"]


def stroke(rng, kind):
    rate = rng.uniform(18, 34)
    n = int(round(60 / rate * HZ))
    ph = np.arange(n) / n
    drive = 0.42 + rng.normal(0, 0.02)
    lead = 0.30 if kind == 1 else 0.02
    force = np.where(ph < drive, np.sin(np.pi * np.clip((ph - lead * 0.3) / drive, 0, 1)), 0)
    if kind == 3:
        force = force * np.where(ph > 0.62 * drive, 0.4 + rng.normal(0, .05), 1.0)
    power = 3.2 if kind == 2 else 1.3
    back = np.clip((ph - drive) / (1 - drive), 0, 1) ** power
    seat = np.where(ph < drive, ph / drive, 1 - back)
    angle = -55 + 90 * np.clip(ph / drive, 0, 1) - 90 * np.clip((ph - drive) / (1 - drive), 0, 1) ** 1.2
    if kind == 1:
        angle = angle - 14 * np.exp(-((ph - 0.88) / 0.07) ** 2)
    watt = rng.uniform(280, 520)
    x = np.stack([watt * force, 62 * seat, angle], 1)
    return x + rng.normal(0, 1, x.shape) * [18, 2.0, 2.5]


def table(rng, n):
    x = np.zeros((n, MAX_LEN, 3), np.float32)
    lens, y = np.zeros(n, int), rng.integers(0, len(FAULTS), n)
    for i in range(n):
        s = stroke(rng, y[i])
        lens[i] = len(s)
        x[i, :len(s)] = s
    return x, lens, y


def export(folder, parts, as_length):
    os.makedirs(folder, exist_ok=True)
    for name, (x, lens, y) in parts.items():
        np.save(f"{folder}/{name}_strokes.npy", x)
        with open(f"{folder}/{name}_index.csv", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["stroke", "length", "fault"])
            for i in range(len(y)):
                w.writerow([i, as_length(lens[i]), FAULTS[y[i]]])
    with open(f"{folder}/meta.json", "w") as f:
        json.dump({"channels": ["handle_force_N", "seat_cm", "oar_angle_deg"], "sample_hz": HZ, "faults": FAULTS}, f)


rng = np.random.default_rng(77)
parts = {"train": table(rng, 1200), "val": table(rng, 400)}
export("ok", parts, int)
# the boat computer's own summary gives the length of a stroke in whole seconds; the index was rebuilt from it
export("bug", parts, lambda n: int(np.ceil(n / HZ)))
