import numpy as np
rng = np.random.default_rng(7)
D = 24
w = rng.standard_normal(D) / D ** 0.5
def cohort(patients, beats):
    xs, ys, ps = [], [], []
    for p in range(patients):
        y = rng.integers(0, 2)
        base = rng.standard_normal(D) * 1.5 + (2 * y - 1) * 1.1 * w
        xs.append(base + 0.5 * rng.standard_normal((beats, D))); ys += [y] * beats; ps += [p] * beats
    return np.concatenate(xs).astype(np.float16), np.array(ys, np.int8), np.array(ps)
x, y, p = cohort(60, 16)
perm = rng.permutation(len(x)); x, y, p = x[perm], y[perm], p[perm]
nx, ny, _ = cohort(100, 4)
byp = rng.permutation(60) % 5
for name, fold in (("ok", byp[p]), ("bug", rng.permutation(len(x)) % 5)):
    np.savez_compressed(f"{name}/beats.npz", x=x, y=y, patient=p, new_x=nx, new_y=ny)
    np.savetxt(f"{name}/folds.csv", np.stack([np.arange(len(x)), p, fold], 1), fmt="%d", delimiter=",", header="row,patient,fold", comments="")
