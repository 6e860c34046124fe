import csv
import datetime as dt
import math
import random


def year(start, days, rnd):
    rows, cloud = [], 0.4
    for h in range(24 * days):
        t = start + dt.timedelta(hours=h)
        doy = t.timetuple().tm_yday
        cloud = min(1.0, max(0.0, 0.4 + 0.93 * (cloud - 0.4) + rnd.gauss(0, 0.14)))
        decl = 0.409 * math.sin(2 * math.pi * (doy - 81) / 365)
        elev = max(0.0, math.sin(0.84) * math.sin(decl) + math.cos(0.84) * math.cos(decl) * math.cos(math.pi * (t.hour + 0.5 - 12) / 12))
        temp = 9 - 11 * math.cos(2 * math.pi * (doy - 20) / 365) + 5 * elev - 3 * cloud + rnd.gauss(0, 1.2)
        wind = abs(rnd.gauss(3, 2))
        kw = 520 * elev * (1 - 0.78 * cloud ** 1.6) * (1 - 0.004 * (temp - 20)) * rnd.uniform(.96, 1.03)
        rows.append((t, min(1, max(0, cloud + rnd.gauss(0, 0.03))), temp, wind, max(0.0, kw)))
    return rows


def stamp(t):
    return t.strftime("%Y-%m-%d %H:%M")


for side in ("bug", "ok"):
    rnd = random.Random(8)
    for y, days in ((2022, 200), (2023, 90)):
        rows = year(dt.datetime(y, 3, 20), days, rnd)
        with open(f"{side}/weather_{y}.csv", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["timestamp", "cloud_cover", "temperature", "wind_speed"])
            w.writerows([stamp(t), f"{c:.3f}", f"{te:.1f}", f"{wi:.1f}"] for t, c, te, wi, _ in rows)
        lag = dt.timedelta(hours=24 if side == "bug" and y == 2022 else 0)
        with open(f"{side}/power_{y}.csv", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["timestamp", "kw"])
            w.writerows([stamp(r[0] + lag), f"{r[-1]:.2f}"] for r in rows)
