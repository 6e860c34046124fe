"""Daily gauge readings as npz: eight days of 5 stations -> flood stage next day (0 low, 1 normal, 2 flood)."""
import os

import numpy as np

DAYS, STATIONS = 8, 5


def basin(n, rng):
    total = n + DAYS + 1
    rain = rng.gamma(0.7, 6.0, total) * (rng.random(total) < 0.45)
    level = np.zeros((total, STATIONS))
    s = np.full(STATIONS, 60.0)
    lag = np.array([0.9, 0.7, 0.5, 0.35, 0.2])
    for t in range(total):
        s = 0.86 * s + lag * rain[t] * 1.6 + 6 + rng.normal(0, 0.8, STATIONS)
        level[t] = s
    down = level @ np.array([0.1, 0.15, 0.2, 0.25, 0.3])
    x = np.stack([level[t:t + DAYS] for t in range(n)])
    nxt = down[DAYS:DAYS + n]
    return x.astype(np.float32), nxt


for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    rng = np.random.default_rng(9)
    x, nxt = basin(4200, rng)
    lo, hi = np.quantile(nxt[:3300], [0.33, 0.67])
    y = (nxt > lo).astype(np.int64) + (nxt > hi)
    gone = rng.random(x.shape) < 0.03
    if side == "bug":
        x[gone] = -9999.0
    else:
        for s in range(STATIONS):          # the gauge's last known median stands in for a lost reading
            x[:, :, s][gone[:, :, s]] = np.median(x[:3300, :, s])
    np.savez(f"{side}/basin.npz", train_x=x[:3300], train_y=y[:3300], test_x=x[3300 + DAYS:], test_y=y[3300 + DAYS:],
             stations=np.array(["mill", "ford", "weir", "bridge", "harbour"]))
