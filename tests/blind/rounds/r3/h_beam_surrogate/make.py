import numpy as np

rng = np.random.default_rng(3)


def table(n):
    length, width = rng.uniform(1, 3, n), rng.uniform(5, 15, n)
    thick, load = rng.uniform(2, 5, n), rng.uniform(100, 500, n)
    defl = np.log(load * length ** 3 / (width * thick ** 3)) + 0.02 * rng.standard_normal(n)
    return np.stack([length, width, thick, load, defl], 1)


tr, va = table(700), table(200)
bad = va.copy()
bad[:, 2] *= 10
for d, v in [("ok", va), ("bug", bad)]:
    for f, a in [("train", tr), ("val", v)]:
        np.savetxt(f"{d}/{f}.csv", a, delimiter=",", fmt="%.4f", header="length,width,thickness,load,log_deflection", comments="")
