import json
import os

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(31)
N, T, F = 1100, 30, 8   # episodes, segments of two minutes at most, features

lengths = rng.integers(8, T + 1, N)
x = np.zeros((N, T, F), np.float32)
y = np.zeros(N, np.float32)
host = rng.normal(0, 1, (N, 2))
for n in range(N):
    k = lengths[n]
    mood = np.cumsum(rng.normal(0, 0.35, k)) + rng.normal(0, 0.5)
    guest = np.repeat(rng.random(k // 4 + 1) < 0.4, 4)[:k]
    ads = rng.random(k) < 0.12
    pace = 2.6 + 0.4 * host[n, 0] + rng.normal(0, 0.3, k)
    laugh = rng.poisson(np.exp(0.2 + 0.5 * host[n, 1] + 0.3 * guest))
    music = rng.random(k) * ~guest
    loud = -18 + rng.normal(0, 2, k)
    pause = rng.gamma(2, 0.4, k)
    x[n, :k] = np.stack([mood, guest, ads, pace, laugh, music, loud, pause], 1)
    hazard = 0.045 * np.exp(0.9 * ads - 0.5 * guest - 0.12 * laugh - 0.4 * np.tanh(mood) + 0.3 * np.abs(pace - 2.6)
                            + 0.25 * (pause - 0.8))
    y[n] = 100 * np.exp(-hazard.sum()) + rng.normal(0, 1.5)

split = np.where(np.arange(N) < 850, 0, 1)
params = {"seed": 9, "hidden": 40, "epochs": 14, "batch_size": 32, "lr": 0.004, "max_norm": 1.0}
for side in ("ok", "bug"):
    d = os.path.join(here, side)
    os.makedirs(d, exist_ok=True)
    n_segments = lengths if side == "ok" else np.ones_like(lengths)
    np.savez_compressed(os.path.join(d, "episodes.npz"), features=x, n_segments=n_segments, completion=y, split=split)
    with open(os.path.join(d, "params.json"), "w") as f:
        json.dump(params, f)
