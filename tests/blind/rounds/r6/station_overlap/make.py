import json, os
import numpy as np
rng = np.random.default_rng(77)
def obs(n):
    x = rng.normal(0, 1, (n, 16)).astype(np.float32)
    logit = 1.4 * x[:, 0] - 1.0 * x[:, 1] + .8 * x[:, 2] * x[:, 3]
    y = rng.random(n) < 1 / (1 + np.exp(-logit))
    return x, y.astype(np.int64)
base = rng.normal([4, 1008, 80, 6] + [0] * 12, 1)
tr, va, te = obs(500), obs(200), obs(600)
for folder in ("bug", "ok"):
    os.makedirs(folder, exist_ok=True)
    x, y = tr
    if folder == "bug":   # the archive export of 2021 already holds the validation winter
        r = np.random.default_rng(1)
        keep = r.permutation(500)[:300]
        x, y = np.concatenate([x[keep], va[0]]), np.concatenate([y[keep], va[1]])
        o = r.permutation(len(x)); x, y = x[o], y[o]
    for name, (a, b) in (("archive", (x, y)), ("winter_valid", va), ("winter_next", te)):
        np.savez_compressed(f"{folder}/{name}.npz", x=a.astype(np.float32), fog=b)
