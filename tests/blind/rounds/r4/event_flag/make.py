import numpy as np
rng = np.random.default_rng(9)
def cohort(n):
    x = rng.standard_normal((n, 6))
    life = rng.exponential(1, n) * 22 * np.exp(-(0.9 * x[:, 0] - 0.7 * x[:, 1] + 0.5 * x[:, 2]))
    cens = rng.uniform(5, 60, n)
    return np.concatenate([x, np.minimum(life, cens)[:, None], (life <= cens)[:, None]], 1)
tr, va = cohort(1400), cohort(400)
head = "age_z,egfr_z,crp_z,bmi_z,sbp_z,hb_z,months,status"
fmt = ["%.3f"] * 6 + ["%.2f", "%d"]
for name in ("ok", "bug"):
    t = tr.copy()
    if name == "bug":
        t[:, -1] = 1 - t[:, -1]
    np.savetxt(f"{name}/train.csv", t, fmt=fmt, delimiter=",", header=head, comments="")
    np.savetxt(f"{name}/valid.csv", va, fmt=fmt, delimiter=",", header=head, comments="")
