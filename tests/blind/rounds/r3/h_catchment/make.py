import numpy as np

rng = np.random.default_rng(5)


def days(n):
    rain = rng.gamma(2, 6, n)
    soil, slope, temp = rng.uniform(10, 45, n), rng.uniform(1, 20, n), rng.uniform(-2, 28, n)
    wet = 1 / (1 + np.exp(-(soil - 27) / 3))
    runoff = rain * (0.1 + 0.8 * wet) * (1 + 0.01 * slope) - 0.05 * temp + 0.3 * rng.standard_normal(n)
    return np.stack([rain, soil, slope, temp, runoff], 1)


tr, va = days(900), days(300)
bad = tr.copy()
bad[rng.random(len(bad)) < 0.08, 1] = -999
for d, t in [("ok", tr), ("bug", bad)]:
    for f, a in [("train", t), ("val", va)]:
        np.savetxt(f"{d}/{f}.csv", a, delimiter=",", fmt="%.3f", header="rain,soil_moisture,slope,temperature,runoff", comments="")
