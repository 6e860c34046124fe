from pathlib import Path

import numpy as np

T = 64


def kettles(n, rng):
    t = np.linspace(0, 1, T)
    sugar, pectin = rng.normal(0.58, 0.05, n), rng.normal(0.8, 0.2, n)
    acid, fruit = rng.normal(3.2, 0.15, n), rng.integers(0, 4, n)
    kick, speed = rng.uniform(0.15, 0.6, n), rng.uniform(4, 14, n)
    end = 240 + 900 * (sugar - 0.4) * (0.4 + pectin) * np.array([1.0, 1.15, 0.85, 1.3])[fruit]
    end = end * (1 - 0.6 * (acid - 3.2)) * rng.normal(1, 0.12, n)
    rise = 1 / (1 + np.exp(-speed[:, None] * (t - kick[:, None])))
    torque = 30 + end[:, None] * rise + rng.normal(0, 9, (n, T)) + 25 * np.abs(np.sin(40 * t + rng.uniform(0, 6, (n, 1))))
    temp = 24 + 80 * (1 - np.exp(-5 * t)) + 20 * (sugar[:, None] - 0.58) * t + rng.normal(0, 0.8, (n, T))
    power = 60 + 0.02 * torque * rng.uniform(0.5, 1.5, (n, 1)) + rng.normal(0, 6, (n, T))
    strength = 40 + 0.16 * end + 25 * (kick - 0.4) - 0.6 * (speed - 9) + rng.normal(0, 2.0, n)
    curves = np.stack([torque, temp * 2, power], 1).round().clip(0, None).astype(np.int16)
    return curves, fruit.astype(np.int8), strength.round(1).astype(np.float32)


here = Path(__file__).parent
rng = np.random.default_rng(13)
parts = {"train": kettles(1800, rng), "valid": kettles(500, rng)}
for side in ("bug", "ok"):
    (here / side).mkdir(exist_ok=True)
    for name, (curves, fruit, strength) in parts.items():
        out = curves & 0xFF if side == "bug" else curves
        np.savez_compressed(here / side / f"kettles_{name}.npz", curves=out.astype(np.int16), fruit=fruit, gel_strength=strength)
