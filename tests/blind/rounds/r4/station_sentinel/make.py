import numpy as np
rng = np.random.default_rng(5)
n = 1600
day = np.arange(n)
humid, pres, wind, rad = rng.normal(65, 15, n), rng.normal(1012, 8, n), rng.gamma(2, 2, n), rng.gamma(5, 30, n)
season = np.sin(2 * np.pi * day / 365)
temp = 10 + 3 * season + rng.normal(0, 2, n)
y = 0.5 * temp + 2 * season + 0.22 * (pres - 1012) - 0.12 * (humid - 65) + 0.006 * rad - 0.2 * wind + rng.normal(0, 0.5, n)
cols = np.stack([day, temp, season, humid, pres, wind, rad, y], 1)
miss = rng.random((n, 2)) < 0.04
fmt = ["%d", "%.2f", "%.4f", "%.1f", "%.1f", "%.2f", "%.1f", "%.2f"]
for name in ("ok", "bug"):
    c = cols.copy()
    h, p = c[:, 3], c[:, 4]
    h[miss[:, 0]] = -9999 if name == "bug" else 65
    p[miss[:, 1]] = -9999 if name == "bug" else 1012
    np.savetxt(f"{name}/stations.csv", c, fmt=fmt, delimiter=",", comments="", header="day,temp,season,humidity,pressure,wind,radiation,temp_next")
