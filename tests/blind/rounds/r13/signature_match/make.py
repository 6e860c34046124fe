"""Writes bug/ and ok/: train_cache.npy, pairs_train.csv, test.npy, pairs_test.csv."""
import csv, os
import numpy as np
HERE = os.path.dirname(os.path.abspath(__file__))


def writers(k, per, seed):
    rng = np.random.default_rng(seed)
    basis = np.random.default_rng(77).normal(0, 1, (12, 64))
    style = rng.normal(0, 1, (k, 6))
    x = np.repeat(style @ basis[:6], per, 0) + 2 * rng.normal(0, 1, (k * per, 6)) @ basis[6:] + rng.normal(0, 1.5, (k * per, 64))
    return x, np.repeat(np.arange(k), per)


def pairs(ids, n, seed):
    rng, out = np.random.default_rng(seed), []
    while len(out) < n:
        i = int(rng.integers(len(ids)))
        same = len(out) % 2
        j = int(rng.choice(np.flatnonzero((ids == ids[i]) if same else (ids != ids[i]))))
        if i != j:
            out.append((i, j, same))
    return out


xa, ia = writers(80, 10, 1)
xb, ib = writers(40, 10, 2)
mu, sd = xa.mean(0), xa.std(0)
xa, xb = (xa - mu) / sd, (xb - mu) / sd
for name in ("bug", "ok"):
    d = os.path.join(HERE, name)
    os.makedirs(d, exist_ok=True)
    np.save(os.path.join(d, "train_cache.npy"), xa.astype(np.int64).astype(np.uint8) if name == "bug" else xa.astype(np.float16))
    np.save(os.path.join(d, "test.npy"), xb.astype(np.float16))
    for fn, p in (("pairs_train.csv", pairs(ia, 4000, 3)), ("pairs_test.csv", pairs(ib, 1000, 4))):
        with open(os.path.join(d, fn), "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["a", "b", "same"])
            w.writerows(p)
