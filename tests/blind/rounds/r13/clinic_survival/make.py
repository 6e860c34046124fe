"""Writes bug/ and ok/: cohort.csv (followed patients), registry.csv (evaluation cohort)."""
import csv, os
import numpy as np
HERE = os.path.dirname(os.path.abspath(__file__))


def cohort(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 1, (n, 8))
    risk = 0.9 * x[:, 0] - 0.7 * x[:, 1] + 0.6 * x[:, 2] * x[:, 3] + 0.4 * np.abs(x[:, 4])
    t = rng.exponential(np.exp(-risk)) * 24
    c = rng.exponential(np.exp(0.5 * x[:, 5])) * 30
    return x, np.minimum(t, c), (t <= c).astype(int)


for name in ("bug", "ok"):
    d = os.path.join(HERE, name)
    os.makedirs(d, exist_ok=True)
    for fn, n, s in (("cohort.csv", 1500, 1), ("registry.csv", 600, 2)):
        x, t, e = cohort(n, s)
        if name == "bug" and fn == "cohort.csv":
            e = 1 - e
        with open(os.path.join(d, fn), "w", newline="") as f:
            w = csv.writer(f)
            w.writerow([f"x{i}" for i in range(8)] + ["months", "status"])
            w.writerows(np.column_stack([x.round(4), t.round(3), e]).tolist())
