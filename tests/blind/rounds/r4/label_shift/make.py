import numpy as np
rng = np.random.default_rng(21)
n = 1800
z = np.zeros(n)
for t in range(1, n):
    z[t] = 0.35 * z[t - 1] + rng.normal()
wind = np.abs(8 + 3 * z); ang = rng.uniform(0, 2 * np.pi, n); temp = rng.normal(10, 6, n); pres = rng.normal(1010, 8, n)
power = 3 / (1 + np.exp(-(wind - 9) / 1.3)) * (1 + 0.15 * np.cos(ang)) - 0.01 * (temp - 10) + rng.normal(0, 0.05, n)
X = np.stack([wind, np.sin(ang), np.cos(ang), temp, pres], 1)
for name in ("ok", "bug"):
    np.savetxt(f"{name}/weather.csv", X, fmt="%.3f", delimiter=",", header="wind_speed,dir_sin,dir_cos,temp,pressure", comments="")
    p = power if name == "ok" else np.append(power[1:], power[-1])
    np.savetxt(f"{name}/power.txt", p, fmt="%.3f")
