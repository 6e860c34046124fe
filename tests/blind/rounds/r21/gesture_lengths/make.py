"""Wrist accelerometer gestures: signals.npy (padded), lengths.npy, labels.npy; wearers 0-19 train, 20-25 validate."""
import os

import numpy as np

NAMES = ["circle", "swipe", "shake", "tap_tap", "raise"]
MAX = 28


def gesture(kind, wearer, rng):
    n = rng.integers(14, MAX + 1)
    t = np.linspace(0, 1, n)
    speed = 1 + 0.1 * wearer
    z = np.zeros((n, 3))
    if kind == 0:
        z[:, 0], z[:, 1] = np.cos(6.28 * speed * t), np.sin(6.28 * speed * t)
    elif kind == 1:
        z[:, 0] = np.sin(3.14 * t) * 1.5
        z[:, 1] = 0.3 * t
    elif kind == 2:
        z[:, 0] = np.sin(22 * speed * t)
        z[:, 2] = 0.3 * np.cos(22 * t)
    elif kind == 3:
        z[:, 2] = 1.6 * np.exp(-((t - 0.3) / 0.06) ** 2) + 1.6 * np.exp(-((t - 0.65) / 0.06) ** 2)
    else:
        z[:, 2] = np.tanh(6 * (t - 0.5))
    z = np.concatenate([rng.normal(0, 0.15, (3, 3)), z])[:MAX]
    z = z + rng.normal(0, 0.3, z.shape)
    return z


for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    rng = np.random.default_rng(50)
    wearers = rng.normal(0, 1, 26)
    sig, length, lab, who = [], [], [], []
    for w in range(26):
        for _ in range(80):
            k = rng.integers(0, 5)
            g = gesture(k, wearers[w], rng)
            row = np.zeros((MAX, 3), np.float32)
            row[:len(g)] = g
            sig.append(row)
            length.append(len(g))
            lab.append(k)
            who.append(w)
    length = np.array(length)
    if side == "bug":
        length = np.ones_like(length)
    np.save(f"{side}/signals.npy", np.stack(sig))
    np.save(f"{side}/lengths.npy", length)
    np.save(f"{side}/labels.npy", np.array(lab))
    np.save(f"{side}/wearer.npy", np.array(who))
