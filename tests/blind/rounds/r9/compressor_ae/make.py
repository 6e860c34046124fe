import os

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = ["suction_p", "discharge_p", "oil_p", "suction_t", "discharge_t", "oil_t", "motor_amp", "vib_x", "vib_y", "flow"]
MIX = np.random.default_rng(0).normal(0, 1, (3, len(NAMES)))


def rows(n, rng, faulty):
    z = rng.normal(0, 1, (n, 3))
    x = np.tanh(z) @ MIX + 0.15 * rng.normal(0, 1, (n, len(NAMES)))
    for i in np.flatnonzero(faulty):
        which = rng.choice(len(NAMES), 2, replace=False)
        x[i, which] += rng.choice([-1, 1], 2) * rng.uniform(0.7, 1.4, 2)
    return x


def write(path, x, label, names):
    cols = [NAMES.index(c) for c in names]
    with open(path, "w") as fh:
        fh.write(",".join(names) + ",fault\n")
        for r, y in zip(x[:, cols], label):
            fh.write(",".join(f"{v:.2f}" for v in r) + f",{int(y)}\n")


for folder in ("bug", "ok"):
    d = os.path.join(HERE, folder)
    os.makedirs(d, exist_ok=True)
    rng = np.random.default_rng(44)
    none = np.zeros(2300, bool)
    write(os.path.join(d, "normal.csv"), rows(2300, rng, none), none, NAMES)
    fault = rng.random(900) < 0.3
    x = rows(900, rng, fault)
    write(os.path.join(d, "test.csv"), x, fault, sorted(NAMES) if folder == "bug" else NAMES)
