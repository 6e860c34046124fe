import os
import numpy as np
rng = np.random.default_rng(2)
n = 1800
rain = rng.gamma(9, 35, n)                  # mm in the season
gdd = rng.normal(1900, 220, n)              # degree days
nitro = rng.uniform(20, 180, n)             # kg/ha
clay = rng.uniform(5, 55, n)
ph = rng.normal(6.4, .5, n)
sow = rng.integers(260, 310, n)
y = 2.2 + .008 * (rain - 315) - 1.3e-5 * (rain - 420) ** 2 + .0012 * (gdd - 1900) + .018 * nitro - 5e-5 * nitro ** 2 - .02 * abs(clay - 28) - .3 * (ph - 6.6) ** 2 - .01 * (sow - 280) + rng.normal(0, .35, n)
X = np.stack([rain, gdd, nitro, clay, ph, sow, np.maximum(y, .2)], 1)
head = "rainfall,gdd,nitrogen,clay_pct,ph,sowing_doy,yield_t_ha"
for folder in ("bug", "ok"):
    os.makedirs(folder, exist_ok=True)
    a, b = X[:1400].copy(), X[1400:].copy()
    if folder == "bug":
        b[:, 0] /= 25.4
        b[:, 2] /= 1.121
    np.savetxt(f"{folder}/fields_2015_2020.csv", a, "%.4g", ",", header=head, comments="")
    np.savetxt(f"{folder}/fields_2021.csv", b, "%.4g", ",", header=head, comments="")
