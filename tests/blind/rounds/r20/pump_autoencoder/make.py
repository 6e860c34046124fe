import json
import os

import numpy as np

rng = np.random.default_rng(19)
D = 24
W1, W2 = rng.normal(0, 1, (4, 16)), rng.normal(0, 0.5, (16, D))
FAULT = rng.normal(0, 1, (3, D))
FAULT /= np.linalg.norm(FAULT, axis=1, keepdims=True)


def normal(n):
    z = rng.uniform(-1.5, 1.5, (n, 4))
    return np.tanh(z @ W1) @ W2 + rng.normal(0, 0.15, (n, D))


def faulty(n):
    x = normal(n)
    kind = rng.integers(0, 3, n)
    return x + FAULT[kind] * rng.uniform(2.0, 4.0, (n, 1))


N = 4500
ok = normal(N)
bad = ok.copy()
window = rng.random(N) < 0.22
bad[window] = faulty(int(window.sum()))
test = np.concatenate([normal(1200), faulty(300)])
label = np.r_[np.zeros(1200), np.ones(300)].astype(np.int8)
perm = rng.permutation(len(test))
for side, x in (("bug", bad), ("ok", ok)):
    os.makedirs(side, exist_ok=True)
    np.save(f"{side}/train_normal.npy", x.astype(np.float32))
    np.save(f"{side}/test_x.npy", test[perm].astype(np.float32))
    np.save(f"{side}/test_y.npy", label[perm])
    json.dump({"channels": D, "bottleneck": 6, "hidden": 64, "epochs": 40, "lr": 2e-3, "batch_size": 128},
              open(f"{side}/config.json", "w"), indent=2)
