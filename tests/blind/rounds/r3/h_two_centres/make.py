import numpy as np

rng = np.random.default_rng(8)


def rows(n, age_shift=0):
    y = rng.integers(0, 2, n)
    s = (2 * y - 1)[:, None]
    x = rng.standard_normal((n, 5)) + s * np.array([0.8, 0.5, 0.6, 0.7, 0.2])
    return x * [6, 30, 0.2, 1.1, 11] + [14, 90, 0.5, 3, 60 + age_shift], y


def save(path, x, y):
    np.savetxt(path, np.c_[x, y], delimiter=",", fmt=["%.3f"] * 5 + ["%d"], comments="",
               header="diameter,contrast,texture,spiculation,age,label")


a, b, v = rows(400), rows(700, 2), rows(400)
for d, plus in [("ok", 0), ("bug", 1)]:
    save(f"{d}/centre_a.csv", *a)
    save(f"{d}/centre_b.csv", b[0], b[1] + plus)
    save(f"{d}/validation.csv", *v)
