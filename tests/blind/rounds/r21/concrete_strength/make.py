"""Concrete lab tests: does a batch pass? train.csv, valid.csv, test.csv in each folder."""
import os

import numpy as np

HEAD = "cement,slag,fly_ash,water,plasticizer,coarse,fine,age,temperature,lab_delay,passed"


def tests(n, rng):
    x = rng.standard_normal((n, 10))
    s = 1.3 * x[:, 0] - 1.1 * x[:, 3] + 0.8 * x[:, 7] + 0.7 * x[:, 1] * x[:, 4] - 0.5 * x[:, 8] ** 2 + 0.5
    y = (s + rng.logistic(0, 0.8, n) > 0).astype(int)
    scale = np.array([90, 70, 50, 20, 5, 75, 80, 20, 6, 2.0])
    mean = np.array([280, 75, 55, 180, 9, 970, 770, 45, 20, 6.0])
    return np.column_stack([x * scale + mean, y])


for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    rng = np.random.default_rng(5)
    train, valid, test = tests(1100, rng), tests(500, rng), tests(3000, rng)
    if side == "bug":
        valid = train[rng.permutation(len(train))[:500]]
    for name, t in (("train", train), ("valid", valid), ("test", test)):
        np.savetxt(f"{side}/{name}.csv", t, fmt=["%.1f"] * 10 + ["%d"], delimiter=",", header=HEAD, comments="")
