import csv, os
import numpy as np

here = os.path.dirname(os.path.abspath(__file__))


def rows(n, seed):
    r = np.random.default_rng(seed)
    hour = r.uniform(5, 23, n)
    occ = np.clip(r.normal(14 + 8 * np.sin(hour / 3), 6, n), 0.5, 60)
    flow = np.clip(r.normal(900 + 20 * occ, 150, n), 0, None)
    speed = np.clip(118 - 0.012 * flow + r.normal(0, 9, n), 10, None)
    ramp = r.normal(300, 80, n)
    delay = 20 + 2.4 * occ + 0.05 * occ ** 2 + 0.02 * (ramp - 300) - 0.15 * (speed - 90) + r.normal(0, 4, n)
    return np.stack([hour, flow, occ, speed, ramp, delay], 1)


for name in ("bug", "ok"):
    os.makedirs(f"{here}/{name}", exist_ok=True)
    for part, n, seed in (("train", 1500, 1), ("val", 500, 2)):
        t = rows(n, seed)
        gone = np.random.default_rng(seed + 10).random(n) < 0.02
        if name == "bug":
            t[gone, 2] = 65535
        else:
            t[gone, 2] = np.median(t[~gone, 2])
        with open(f"{here}/{name}/{part}.csv", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["hour", "flow", "occupancy", "speed", "ramp_flow", "delay_s"])
            w.writerows([[f"{v:g}" for v in np.round(row, 2)] for row in t])
