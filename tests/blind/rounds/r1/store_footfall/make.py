import numpy as np

rng = np.random.default_rng(12)
n = 1800
size, centre = rng.uniform(0.3, 2.0, n), rng.integers(0, 2, n)
weekend, holiday = rng.random(n) < 2 / 7, rng.random(n) < 0.04
rain, temp, promo = rng.gamma(1, 3, n), rng.normal(14, 8, n), rng.random(n) < 0.2
y = 300 * size * (1 + 0.5 * centre) * (1 + 0.4 * weekend) * (1 + 0.3 * promo) * (1 - 0.02 * np.minimum(rain, 15)) * (1 - 0.8 * holiday)
y = rng.poisson(y)
for name in ("bug", "ok"):
    with open(f"{name}/features.csv", "w") as f:
        f.write("size,centre,weekend,holiday,rain_mm,temp,promo\n")
        for i in range(n):
            f.write(f"{size[i]:.2f},{centre[i]},{int(weekend[i])},{int(holiday[i])},{rain[i]:.1f},{temp[i]:.1f},{int(promo[i])}\n")
    target = np.append(y[1:], y[-1]) if name == "bug" else y
    with open(f"{name}/footfall.csv", "w") as f:
        f.write("row,visitors\n")
        for i in range(n):
            f.write(f"{i},{target[i]}\n")
