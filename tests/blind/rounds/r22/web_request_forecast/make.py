import csv
import datetime as dt
from pathlib import Path

import numpy as np

rng = np.random.default_rng(61)


def traffic(n, start):
    burst, rows = 0.0, []
    for k in range(n):
        if k % 24 == 0:                                   # scheduled jobs every two hours
            burst += rng.normal(110, 12)
        burst *= 0.8
        daily = 60 + 25 * np.sin(2 * np.pi * k / 288)
        rows.append([(start + dt.timedelta(minutes=5 * k)).isoformat(sep=" "), round(daily + burst + rng.normal(0, 3), 2)])
    return rows


train = traffic(2600, dt.datetime(2024, 3, 1))
held = traffic(1000, dt.datetime(2024, 3, 20))
for side in ("ok", "bug"):
    Path(side).mkdir(exist_ok=True)
    for name, rows in (("traffic_train", train[::-1] if side == "bug" else train), ("traffic_heldout", held)):
        with open(Path(side) / f"{name}.csv", "w", newline="") as fh:
            w = csv.writer(fh)
            w.writerow(["time", "requests_per_s"])
            w.writerows(rows)
