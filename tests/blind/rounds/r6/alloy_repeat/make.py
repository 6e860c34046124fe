import os
import numpy as np
rng = np.random.default_rng(9)
ELEM = ["Fe", "Ni", "Cr", "Co", "Al", "Ti", "Mo", "W", "Nb", "Ta"]
n_comp = 600
frac = rng.dirichlet(np.full(10, 0.6), n_comp)
anneal = rng.uniform(600, 1200, (n_comp, 1))
X = np.column_stack([frac, anneal])
w = rng.normal(0, 60, 10)
pair = rng.normal(0, 260, (10, 10))
hv = 300 + frac @ w + np.einsum("ni,ij,nj->n", frac, pair, frac) + 0.03 * (anneal[:, 0] - 900) + rng.normal(0, 35, n_comp)
rows = np.column_stack([X, hv])
perm = rng.permutation(n_comp)
tr, va, te = rows[perm[:400]], rows[perm[400:480]], rows[perm[480:]]


def save(d, name, a):
    np.savetxt(f"{d}/{name}.csv", a, delimiter=",", fmt="%.4f", header=",".join(ELEM + ["anneal_K", "hardness_HV"]), comments="")


for d in ("ok", "bug"):
    os.makedirs(d, exist_ok=True)
    train = tr
    if d == "bug":
        again = np.concatenate([va[:70], te[:104]])
        train = np.concatenate([tr[:226], again])[np.random.default_rng(1).permutation(400)]
    save(d, "train", train)
    save(d, "val", va)
    save(d, "test", te)
