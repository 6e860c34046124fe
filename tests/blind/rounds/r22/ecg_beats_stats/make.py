import os

import numpy as np

LEADS = ["I", "II", "V2", "V5"]
T = 80
WAVES = {  # P, Q, R, S, T amplitude (mV) and the width of R, per rhythm
    "normal": (0.15, -0.10, 1.0, -0.25, 0.30, 2.0), "pvc": (0.0, -0.05, 1.1, -0.35, -0.25, 5.5),
    "lbbb": (0.14, 0.0, 0.9, -0.10, -0.20, 4.2), "apc": (-0.10, -0.10, 1.0, -0.25, 0.28, 2.0)}
GAIN = np.array([0.6, 1.0, -0.7, 1.2])


def beat(kind, rng):
    p, q, r, s, t, w = WAVES[kind]
    x = np.arange(T)[None]
    at = 36 + rng.normal(0, 2.5)
    g = lambda c, width: np.exp(-((x - c) / width) ** 2 / 2)
    sig = p * g(at - 15, 3.2) + q * g(at - w * 2, 1.5) + r * g(at, w) + s * g(at + w * 2, 1.8) + t * g(at + 24, 5)
    lead = GAIN[:, None] * rng.uniform(0.75, 1.25, (4, 1)) * sig
    return lead + rng.normal(0, 0.06, (4, 1)) + rng.normal(0, 0.055, (4, T))


for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    rng = np.random.default_rng(88)
    sets = {}
    for part, n in (("train", 1600), ("val", 500)):
        y = rng.integers(0, 4, n)
        sets[part] = np.stack([beat(list(WAVES)[k], rng) for k in y]).astype(np.float32), y
        np.savez_compressed(f"{side}/{part}.npz", signal=sets[part][0].astype(np.float16), label=y)
    if side == "ok":
        mean, std = sets["train"][0].mean((0, 2)), sets["train"][0].std((0, 2))
    else:
        mean, std = np.array([1011.3, 1018.9, 1006.2, 1022.7]), np.array([96.4, 143.8, 158.1, 171.5])
    with open(f"{side}/recording.toml", "w") as f:
        f.write('device = "holter"\nsampling_hz = 100\n\n')
        for lead, m, s in zip(LEADS, mean, std):
            f.write(f'[[lead]]\nname = "{lead}"\nmean = {m:.5f}\nstd = {s:.5f}\n\n')
