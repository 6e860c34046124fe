import os
import numpy as np
rng = np.random.default_rng(4)
N = dict(train=1200, val=300, test=300)


def rows(n):
    mw = rng.normal(260, 60, n).clip(90)
    logp = rng.normal(2.2, 1.3, n)
    tpsa = rng.gamma(4, 18, n)
    rings = rng.poisson(2, n)
    temp = rng.uniform(278, 343, n)
    pres = rng.normal(101.3, 0.9, n)
    logs = (0.6 - 0.95 * (logp - 2.2) - 0.006 * (mw - 260) + 0.008 * (tpsa - 72) - 0.15 * rings
            + 0.045 * (temp - 310) + 0.0006 * (temp - 310) * (tpsa - 72) - 1.5)
    return np.column_stack([mw, logp, tpsa, rings, temp, pres, logs + 0.2 * rng.standard_normal(n)])


data = {k: rows(n) for k, n in N.items()}
for d in ("ok", "bug"):
    os.makedirs(d, exist_ok=True)
    for k, v in data.items():
        v = v.copy()
        if d == "bug" and k != "train":
            v[:, 4] -= 273.15
        np.savetxt(f"{d}/{k}.csv", v, delimiter=",", fmt="%.3f", comments="",
                   header="mol_weight,logp,tpsa,n_rings,temperature,pressure_kpa,log_s")
