import numpy as np
rng = np.random.default_rng(5)
def year(n):
    hour = rng.integers(0, 24, n); wd = (rng.random(n) < 5 / 7).astype(int)
    temp = rng.normal(12, 8, n) + 3 * np.sin((hour - 9) * np.pi / 12); wind = rng.gamma(2, 3, n)
    load = 40 + 9 * np.sin((hour - 7) * np.pi / 12) + 5 * wd + 0.9 * np.clip(15 - temp, 0, None) + 1.2 * np.clip(temp - 22, 0, None) + 0.15 * wind + rng.normal(0, 1, n)
    return np.column_stack([hour, wd, temp, wind, load])
tr, va = year(3000), year(1000)
f = va.copy(); f[:, 2] = f[:, 2] * 1.8 + 32
for k, v in (("bug", f), ("ok", va)):
    for n, a in (("train", tr), ("valid", v)):
        np.savetxt(f"{k}/{n}.csv", a, "%.2f", ",", header="hour,workday,temperature,wind,load", comments="")
