import json
import os

import numpy as np

rng = np.random.default_rng(8)
n, k, d = 1400, 6, 64
y = rng.integers(0, k, n)
proto = (rng.random((k, d)) < .2)
x = (rng.random((n, d)) < np.where(proto[y], .22, .05)).astype(np.uint8)
edges = set()
by = [np.flatnonzero(y == c) for c in range(k)]
while len(edges) < 3600:
    a = int(rng.integers(n))
    b = int(rng.choice(by[y[a]])) if rng.random() < .78 else int(rng.integers(n))
    if a != b:
        edges.add((min(a, b), max(a, b)))
perm = rng.permutation(n)
split = {"train": perm[:500].tolist(), "val": perm[500:800].tolist(), "test": perm[800:].tolist()}
for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    lab = y.copy()
    if side == "bug":
        cut = 140
        lab = np.concatenate([y[:cut], y[cut + 1:], y[-1:]])
    np.save(f"{side}/features.npy", x)
    np.save(f"{side}/labels.npy", lab.astype(np.int64))
    np.savetxt(f"{side}/edges.csv", np.array(sorted(edges)), fmt="%d", delimiter=",")
    json.dump(split, open(f"{side}/split.json", "w"))
