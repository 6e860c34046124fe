import json, os
import numpy as np
here = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(23)
MEAN = np.array([0.20, 0.30, 0.25, 0.45])
SIGN = rng.normal(size=(4, 4)) * 0.05


def tiles(n):
    y = rng.integers(0, 4, n)
    x = MEAN[:, None, None] + SIGN[y][:, :, None, None] + 0.03 * rng.normal(size=(n, 4, 1, 1)) + 0.05 * rng.normal(size=(n, 4, 6, 6))
    return x.clip(0, 1).astype("float32"), y


train, test = tiles(900), tiles(600)
mean, std = train[0].mean((0, 2, 3)), train[0].std((0, 2, 3))
for side, factor in (("bug", 255.0), ("ok", 1.0)):
    d = os.path.join(here, side)
    os.makedirs(d, exist_ok=True)
    np.savez(os.path.join(d, "tiles.npz"), x_train=train[0], y_train=train[1], x_test=test[0], y_test=test[1])
    with open(os.path.join(d, "stats.json"), "w") as f:
        json.dump({"bands": ["blue", "green", "red", "nir"], "mean": [round(float(v) * factor, 4) for v in mean], "std": [round(float(v) * factor, 4) for v in std]}, f)
