import numpy as np
rng = np.random.default_rng(3)
def table(n):
    mw = rng.normal(300, 70, n).clip(90); logp = rng.normal(2.2, 1.3, n); tpsa = rng.gamma(4, 18, n)
    hd = rng.poisson(1.6, n); ring = rng.poisson(2.1, n); t = rng.uniform(273, 333, n)
    y = 0.5 - 0.9 * logp - 0.006 * (mw - 300) + 0.01 * tpsa - 0.25 * ring + 0.03 * (t - 303) * (1 + 0.2 * hd) + rng.normal(0, 0.3, n)
    return np.stack([mw, logp, tpsa, hd, ring, t, y], 1)
train, valid = table(1200), table(300)
head = "mol_weight,logp,tpsa,h_donors,ring_count,temperature,log_s"
fmt = ["%.1f", "%.3f", "%.1f", "%d", "%d", "%.1f", "%.3f"]
for name in ("ok", "bug"):
    v = valid.copy()
    if name == "bug":
        v[:, 5] -= 273.15
    np.savetxt(f"{name}/train.csv", train, fmt=fmt, delimiter=",", header=head, comments="")
    np.savetxt(f"{name}/valid.csv", v, fmt=fmt, delimiter=",", header=head, comments="")
