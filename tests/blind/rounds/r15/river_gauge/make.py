import os
import numpy as np
here = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(12)


def table(n):
    X = np.column_stack([rng.gamma(2, 5, n), rng.normal(12, 6, n), rng.uniform(40, 100, n), rng.gamma(3, 4, n), rng.normal(1.2, 0.3, n)])
    y = 0.06 * X[:, 0] + 0.05 * X[:, 3] + 1.5 * X[:, 4] - 0.02 * X[:, 1] + rng.normal(0, 0.1, n)
    return X, y


def write(path, X, y, hole, text):
    with open(path, "w") as f:
        f.write("rain_mm,temp_c,humidity,rain_prev,stage_up,stage\n")
        for row, t, h in zip(X, y, hole):
            f.write(",".join(text if m else f"{v:.2f}" for v, m in zip(row, h)) + f",{t:.3f}\n")


Xa, ya = table(900)
Xb, yb = table(500)
ha = rng.random(Xa.shape) < np.array([0.06, 0.02, 0.08, 0.06, 0.03])
hb = np.zeros(Xb.shape, bool)
for side, text in (("bug", "-9999"), ("ok", "")):
    d = os.path.join(here, side)
    os.makedirs(d, exist_ok=True)
    write(os.path.join(d, "gauge_train.csv"), Xa, ya, ha, text)
    write(os.path.join(d, "gauge_test.csv"), Xb, yb, hb, text)
