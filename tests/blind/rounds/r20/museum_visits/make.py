import csv
import datetime as dt
import numpy as np


def series(seed, start, days):
    rng = np.random.default_rng(seed)
    out = []
    for k in range(days):
        d = start + dt.timedelta(days=k)
        doy = d.timetuple().tm_yday
        rain = max(0.0, rng.normal(0.2, 1))
        level = 600 + 260 * np.sin(2 * np.pi * (doy - 105) / 365.25) + [(-120), -60, -40, 0, 60, 330, 260][d.weekday()]
        level += 200 * (d.month == 8) + 180 * (d.month == 12 and d.day > 20) + 45 * rain
        exhibit = int((k // 60) % 3 == 0)
        level += 90 * exhibit
        out.append([d, round(rain, 2), exhibit, max(20, int(level + rng.normal(0, 40)))])
    return out


def write(path, data, us_import=False):
    with open(path, "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["date", "rain", "special_exhibit", "visitors"])
        for d, *rest in data:
            if us_import and d.day <= 12:
                d = d.replace(month=d.day, day=d.month)
            w.writerow([d.isoformat(), *rest])


train = series(1, dt.date(2014, 1, 1), 2800)
val = series(2, dt.date(2021, 9, 1), 500)
for side in ("bug", "ok"):
    write(f"{side}/history.csv", train, side == "bug")
    write(f"{side}/recent.csv", val)
