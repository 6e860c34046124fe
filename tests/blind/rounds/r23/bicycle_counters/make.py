from pathlib import Path

import numpy as np

here = Path(__file__).parent
rng = np.random.default_rng(8)
N, N_TRAIN = 4000, 3200
level = rng.normal(4.0, 0.5, 14)
commuter = rng.uniform(0.2, 1.0, 14)

counter = rng.integers(0, 14, N)
hour = rng.integers(5, 23, N)
weekday = rng.integers(0, 7, N)
temp = rng.normal(13, 7, N)
rain = np.where(rng.random(N) < 0.22, rng.gamma(1.5, 1.2, N), 0.0)
wind = rng.gamma(3, 1.6, N)
holiday = (rng.random(N) < 0.08).astype(int)
work = (weekday < 5) & (holiday == 0)
rush = np.exp(-((hour - 8) / 1.2) ** 2) + np.exp(-((hour - 17.5) / 1.6) ** 2)
leisure = np.exp(-((hour - 14.5) / 3.5) ** 2)
log_rate = (level[counter] + np.where(work, 1.6 * rush * commuter[counter] + 0.3 * leisure, 1.1 * leisure)
            + 0.05 * (temp - 13) - 0.0025 * (temp - 20) ** 2 * (temp > 20) - 0.35 * np.sqrt(rain) - 0.03 * wind - 0.4)
count = rng.poisson(np.exp(log_rate + rng.normal(0, 0.08, N)))

other = rng.poisson(np.exp(log_rate[rng.integers(0, N)]))
for side in ("ok", "bug"):
    d = here / side
    d.mkdir(exist_ok=True)
    for part, a, b in (("train", 0, N_TRAIN), ("valid", N_TRAIN, N)):
        with open(d / f"{part}_conditions.tsv", "w") as f:
            f.write("counter\thour\tweekday\ttemp\train\twind\tholiday\n")
            for i in range(a, b):
                f.write(f"{counter[i]}\t{hour[i]}\t{weekday[i]}\t{temp[i]:.1f}\t{rain[i]:.1f}\t{wind[i]:.1f}\t{holiday[i]}\n")
        c = count[a:b]
        if part == "train" and side == "bug":
            c = np.append(np.delete(c, 211), other)
        np.savetxt(d / f"{part}_counts.txt", c, fmt="%d")
