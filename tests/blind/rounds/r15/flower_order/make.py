import os
import numpy as np
here = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(19)
NAMES = ["aster", "dahlie", "nelke", "rose", "tulpe", "veilchen"]
C = rng.normal(size=(6, 5)) * 1.0


def rows(n):
    k = rng.integers(0, 6, n)
    return k, C[k] + 0.6 * rng.normal(size=(n, 5))


def write(path, k, x):
    with open(path, "w") as f:
        f.write("art;bluete_l;bluete_b;blatt_l;blatt_b;stiel\n")
        for a, r in zip(k, x):
            f.write(NAMES[a] + ";" + ";".join(f"{v:.3f}" for v in r) + "\n")


ktr, xtr = rows(1800)
kte, xte = rows(600)
for side in ("bug", "ok"):
    d = os.path.join(here, side)
    os.makedirs(d, exist_ok=True)
    o = np.argsort(ktr, kind="stable") if side == "bug" else np.arange(len(ktr))
    write(os.path.join(d, "messung.csv"), ktr[o], xtr[o])
    write(os.path.join(d, "pruefung.csv"), kte, xte)
