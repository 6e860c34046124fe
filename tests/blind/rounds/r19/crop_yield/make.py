import csv
import numpy as np

COLS = ["field", "ndvi_june", "ndvi_july", "rain_spring", "rain_summer", "soil_ph", "soil_moisture", "nitrogen",
        "gdd", "variety", "yield_t_ha"]


def fields(n, rng):
    ndvi6 = rng.beta(6, 4, n)
    ndvi7 = (ndvi6 + rng.normal(0.08, 0.08, n)).clip(0, 1)
    r1, r2 = rng.gamma(6, 25, n), rng.gamma(5, 20, n)
    ph, moist = rng.normal(6.5, 0.6, n), rng.normal(0.27, 0.06, n).clip(0.05, 0.5)
    nit, gdd, var = rng.uniform(60, 220, n), rng.normal(1500, 150, n), rng.integers(0, 4, n)
    y = (7.5 + 9 * (ndvi7 - 0.68) + 4 * (ndvi6 - 0.6) - 1.2 * (ph - 6.5) ** 2 + 12 * (moist - 0.27) + 0.008 * (nit - 140)
         - 0.00012 * (nit - 150) ** 2 + 0.006 * (r1 - 150) + 0.01 * (r2 - 100) - 0.00006 * (r2 - 110) ** 2
         + 0.001 * (gdd - 1500) + np.array([0, 0.5, -0.4, 0.8])[var] + rng.normal(0, 0.4, n))
    return [ndvi6, ndvi7, r1, r2, ph, moist, nit, gdd, var, y]


for side in ("bug", "ok"):
    rng = np.random.default_rng(8)
    for part, n in (("train", 5000), ("valid", 1200)):
        c = fields(n, rng)
        hit = {k: rng.random(n) < 0.02 for k in range(6)}
        with open(f"{side}/{part}.csv", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(COLS)
            for i in range(n):
                row = [f"{v[i]:.3f}" for v in c[:8]]
                for k in range(6):
                    if hit[k][i]:
                        row[k] = "-9999.000" if side == "bug" else ""
                w.writerow([f"F{part[0]}{i:05d}"] + row + ["ABCD"[c[8][i]], f"{c[9][i]:.2f}"])
    with open(f"{side}/settings.ini", "w") as f:
        f.write("[model]\nhidden = 96\ndropout = 0.05\n\n[train]\nepochs = 25\nbatch_size = 64\nlr = 0.001\n"
                "weight_decay = 0.0001\nseed = 12\n")
