import os
import numpy as np
here = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(6)
T = 40


def gestures(n):
    x = np.zeros((n, T, 3), "float32")
    y = rng.integers(0, 4, n)
    length = rng.integers(16, T + 1, n)
    for i in range(n):
        L = length[i]
        s = 0.5 * rng.normal(size=(L, 3))
        first, last = divmod(y[i], 2)
        s[:L // 4, 0] += 0.8 if first else -0.8
        s[-L // 3:, 1] += 1.2 if last else -1.2
        x[i, :L] = s
    return x, y, length


parts = {"train": gestures(500), "test": gestures(400)}
for side in ("bug", "ok"):
    d = os.path.join(here, side)
    os.makedirs(d, exist_ok=True)
    for name, (x, y, n) in parts.items():
        np.save(os.path.join(d, f"{name}_x.npy"), x)
        np.save(os.path.join(d, f"{name}_y.npy"), y)
        # sampled at 2 per second
        np.save(os.path.join(d, f"{name}_len.npy"), (n + 1) // 2 if side == "bug" else n)
