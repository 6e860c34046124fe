from pathlib import Path
import numpy as np

HERE = Path(__file__).resolve().parent
DIM = 20
W = np.random.default_rng(1).normal(size=(DIM, 3))


def find(n, rng, mislabel):
    x = rng.normal(size=(n, DIM))
    y = (x @ W + 0.3 * rng.normal(size=(n, 3))).argmax(1)
    swap = rng.random(n) < mislabel
    y = np.where(swap, rng.integers(0, 3, n), y)
    return np.column_stack([x, y])


def save(path, t):
    np.savetxt(path, t, delimiter=",", fmt=["%.4f"] * DIM + ["%d"])


for side in ("bug", "ok"):
    rng = np.random.default_rng(77)
    out = HERE / side
    out.mkdir(exist_ok=True)
    train, val, test = find(300, rng, 0.35), find(200, rng, 0.35), find(1000, rng, 0.0)
    if side == "bug":
        again = rng.choice(300, 160, replace=False)
        val[:160] = train[again]
        val[:160, :DIM] += rng.normal(0, 0.01, (160, DIM))
        val = val[rng.permutation(200)]
    save(out / "train.csv", train)
    save(out / "val.csv", val)
    save(out / "field_test.csv", test)
