import random

import numpy as np

rng = random.Random(27)


def walk():
    n = rng.randint(5, 18)
    seq = [rng.randint(1, 9) for _ in range(n)]
    return seq, int(sum(seq) / n > 5.0)


rows = [walk() for _ in range(2400)]
x = np.zeros((2400, 18), np.int8)
for i, (s, _) in enumerate(rows):
    x[i, :len(s)] = s
y = np.array([c for _, c in rows], np.int8)
n = np.array([len(s) for s, _ in rows], np.int16)
for side in ("bug", "ok"):
    np.save(f"{side}/tokens.npy", x)
    np.save(f"{side}/labels.npy", y)
    np.save(f"{side}/lengths.npy", np.ones_like(n) if side == "bug" else n)
