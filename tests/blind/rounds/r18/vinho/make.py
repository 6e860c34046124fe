import numpy as np

COLS = ["fixed_acidity", "volatile_acidity", "citric_acid", "residual_sugar", "chlorides", "free_so2", "density", "pH", "sulphates", "alcohol"]


def bottles(n, rng):
    alc = rng.uniform(8.4, 14.0, n)
    sugar = rng.gamma(1.6, 3.2, n) + 0.8
    va = rng.gamma(7, 0.05, n)
    fa = rng.normal(7.2, 1.1, n)
    ca = np.clip(rng.normal(0.32, 0.12, n), 0, 1)
    chl = rng.gamma(9, 0.005, n)
    so2 = rng.gamma(4, 8, n)
    den = 0.9915 + 0.0004 * sugar - 0.0011 * (alc - 10) + rng.normal(0, 0.0005, n)
    ph = 3.2 - 0.06 * (fa - 7.2) + rng.normal(0, 0.1, n)
    sul = rng.gamma(12, 0.045, n)
    z = (0.9 * (alc - 11) / 1.6 - 1.0 * np.abs(va - 0.3) / 0.1 + 0.6 * (sul - 0.55) / 0.15 - 0.5 * (chl - 0.045) / 0.015
         - 0.5 * np.abs(so2 - 32) / 14 + 0.5 * np.tanh((sugar - 5) / 3) * (alc - 11) / 1.6 + rng.normal(0, 0.35, n))
    q = np.digitize(z, [-2.4, -1.2, -0.1, 1.0]) + 4
    return np.column_stack([fa, va, ca, sugar, chl, so2, den, ph, sul, alc]), q


def write(path, x, q, lost=None):
    fmt = [1, 3, 2, 1, 3, 0, 5, 2, 2, 1]
    with open(path, "w") as f:
        f.write(";".join(COLS + ["quality"]) + "\n")
        for i, row in enumerate(x):
            cells = [f"{v:.{k}f}" for v, k in zip(row, fmt)]
            if lost is not None:
                cells = [c.replace(".", "").lstrip("0") or "0" if l else c for c, l in zip(cells, lost[i])]
            f.write(";".join(cells + [str(q[i])]) + "\n")


rng = np.random.default_rng(12)
x, q = bottles(2600, rng)
xt, qt = bottles(700, rng)
lost = (rng.random(len(x)) < 0.02)[:, None] & (rng.random(x.shape) < 0.8)
for side in ("bug", "ok"):
    write(f"{side}/lab_train.csv", x, q, lost if side == "bug" else None)
    write(f"{side}/lab_test.csv", xt, qt)
