import os
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def series(hours, rng):
    rain = np.zeros(hours)
    for t in np.flatnonzero(rng.random(hours) < 0.03):
        rain[t:t + rng.integers(2, 9)] += rng.gamma(2.0, 1.5)
    fast, slow = 0.0, 3.0
    delayed = np.concatenate([np.zeros(5), rain])[:hours]
    level = np.zeros(hours)
    for t in range(hours):
        fast = 0.82 * fast + 0.18 * delayed[t]
        slow = 0.992 * slow + 0.010 * delayed[t]
        level[t] = 0.6 + 0.25 * fast + 0.15 * slow
    return rain, level + 0.01 * rng.standard_normal(hours)


def write(path, rain, level):
    with open(path, "w") as fh:
        fh.write("hour,rain_mm,level_m\n")
        for t, (r, h) in enumerate(zip(rain, level)):
            fh.write(f"{t},{r:.1f},{h:.3f}\n")


for folder in ("bug", "ok"):
    os.makedirs(os.path.join(HERE, folder), exist_ok=True)
    rng = np.random.default_rng(17)
    rain, level = series(3000, rng)
    vrain, vlevel = series(1200, rng)
    if folder == "bug":
        rain[70:] = 0.4
    write(os.path.join(HERE, folder, "train.csv"), rain, level)
    write(os.path.join(HERE, folder, "valid.csv"), vrain, vlevel)
