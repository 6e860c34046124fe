import json
import numpy as np

rng = np.random.default_rng(3)
n, length = 800, 96
label = rng.integers(0, 3, n)
t = np.arange(length) / 96
g = np.zeros((n, length))
for i, k in enumerate(label):
    f, phase, level = rng.uniform(5, 9), rng.uniform(0, 6.28), rng.uniform(0.7, 1.3)
    g[i] = level * np.sin(2 * np.pi * f * t + phase)
    if k == 1:
        g[i] *= 1.8
    if k == 2:
        g[i] += 0.9 * level * np.sin(4 * np.pi * f * t + phase)
g += rng.normal(0, 0.25, g.shape)
classes = ["normal", "imbalance", "looseness"]
for name, gain in (("bug", 200), ("ok", 32)):
    counts = np.round(g * gain).astype(np.int64)
    counts = counts.astype(np.int8)
    np.savez_compressed(f"{name}/recordings.npz", counts=counts, label=label.astype(np.uint8))
    json.dump({"classes": classes, "g_per_count": 1 / gain}, open(f"{name}/meta.json", "w"))
