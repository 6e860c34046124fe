"""Writes the daily logger series of the bog stations and the run file."""
import csv
import json
import os

import numpy as np

rng = np.random.default_rng(7)


def station(days, phase):
    t = np.arange(days)
    temp = 8 + 9 * np.sin(2 * np.pi * (t - 110 + phase) / 365) + rng.normal(0, 2, days)
    wet = rng.random(days) < 0.42
    rain = np.where(wet, rng.gamma(0.9, 6.0, days), 0.0)
    depth = np.zeros(days)
    d = 12.0
    for i in range(days):
        et = max(temp[i], 0) * 0.16 * (1.0 if d < 25 else 0.5)
        runoff = 0.30 * max(8 - d, 0)
        d = d + (et + 0.9 + runoff) * 0.28 - 0.24 * rain[i] * (1.0 if d > 3 else 0.5)
        d = min(max(d, -3), 45)
        depth[i] = d
    return temp, rain, depth + rng.normal(0, 0.25, days)


rows = []
for name, phase in (("raised_dome", 0), ("lagg_north", 6), ("old_cutting", -5), ("pool_edge", 3)):
    temp, rain, depth = station(900, phase)
    rows += [(name, i, round(a, 2), round(b, 2), round(c, 2)) for i, (a, b, c) in enumerate(zip(temp, rain, depth))]

run = {"window_days": 21, "hidden": 40, "batch": 64, "epochs": 8, "lr": 0.004,
       "decay": {"every": 100, "factor": 0.4}, "valid_station": "pool_edge", "seed": 2}
for side in ("ok", "bug"):
    os.makedirs(side, exist_ok=True)
    with open(f"{side}/logger.csv", "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["station", "day", "air_temp_c", "rain_mm", "water_table_depth_cm"])
        w.writerows(rows)
    out = json.loads(json.dumps(run))
    if side == "bug":
        out["decay"]["every"] = 4
    with open(f"{side}/run.json", "w") as f:
        json.dump(out, f, indent=2)
