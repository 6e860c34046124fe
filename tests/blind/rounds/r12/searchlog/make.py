"""Judged query-document rows as exported for learning to rank: features, grades, group sizes."""
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
rng = np.random.default_rng(90)
D = 12
w = rng.normal(size=D)
u = rng.normal(size=D)
u /= np.linalg.norm(u)
w = w - (w @ u) * u
w = 0.45 * w / np.linalg.norm(w) + 0.9 * u


def query():
    n = int(rng.integers(6, 22))
    z = rng.normal(size=(n, D))
    level = 4.0 * rng.normal()
    quality = z @ w + 0.15 * rng.normal(size=n)
    rank = quality.argsort()[::-1].argsort()
    grade = np.select([rank < 1, rank < 3, rank < 6], [3, 2, 1], 0)
    return (z + level * u).astype(np.float32), grade.astype(np.uint8)


train = {str(100 * k + 7 if k % 3 else k + 1): query() for k in range(320)}
test = [query() for _ in range(120)]
by_text = sorted(train)
by_number = sorted(train, key=int)
for name, order in (("ok", by_text), ("bug", by_number)):
    d = HERE / name
    d.mkdir(exist_ok=True)
    np.savez_compressed(d / "train.npz", x=np.concatenate([train[q][0] for q in by_text]).astype(np.float16),
                        grade=np.concatenate([train[q][1] for q in by_text]))
    (d / "train.group").write_text("\n".join(str(len(train[q][1])) for q in order) + "\n")
    np.savez_compressed(d / "test.npz", x=np.concatenate([t[0] for t in test]).astype(np.float16),
                        grade=np.concatenate([t[1] for t in test]))
    (d / "test.group").write_text("\n".join(str(len(t[1])) for t in test) + "\n")
