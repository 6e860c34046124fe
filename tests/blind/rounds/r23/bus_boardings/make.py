import csv
from datetime import date, timedelta
from pathlib import Path

import numpy as np

rng = np.random.default_rng(77)
codes = sorted(rng.choice(np.arange(101, 3000), 90, replace=False))
stops = {}
for c in codes:
    c = f"{c:04d}"
    stops[c] = dict(residents=round(float(rng.lognormal(6.5, 0.7))), jobs=round(float(rng.lognormal(6.0, 1.0))),
                    school=int(rng.random() < 0.25), station_km=round(float(rng.gamma(1.5, 1.2)), 2),
                    lines=int(rng.integers(1, 6)))
start = date(2023, 3, 1)
tickets = []
for _ in range(4800):
    d = int(rng.integers(0, 120))
    day = start + timedelta(days=d)
    hour = int(rng.integers(5, 23))
    rain = round(float(max(rng.normal(-0.5, 1.5), 0)), 1)
    if rng.random() < 0.02:
        code, s = f"T{rng.integers(1, 8):02d}", dict(residents=600, jobs=400, school=0, station_km=1.5, lines=2)
    else:
        code = list(stops)[rng.integers(len(stops))]
        s = stops[code]
    work = day.weekday() < 5
    am, pm = np.exp(-((hour - 7.5) / 1.3) ** 2), np.exp(-((hour - 16.8) / 1.8) ** 2)
    mean = s["residents"] * (0.005 + 0.035 * am * work + 0.01 * pm) + s["jobs"] * (0.004 + 0.04 * pm * work) \
        + 25 * s["school"] * work * np.exp(-((hour - 13.2) / 0.9) ** 2)
    mean *= (0.6 + 0.2 * s["lines"]) * np.exp(-0.15 * s["station_km"]) * (1 + 0.06 * rain)
    tickets.append([day.isoformat(), hour, code, rain, int(rng.poisson(mean * rng.lognormal(0, 0.15)))])
tickets.sort(key=lambda r: (r[0], r[1]))

for side in ("ok", "bug"):
    out = Path(__file__).parent / side
    out.mkdir(exist_ok=True)
    with open(out / "stops.csv", "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["stop", "residents", "jobs", "school", "station_km", "lines"])
        w.writerows([c, *s.values()] for c, s in stops.items())
    with open(out / "tickets.csv", "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["date", "hour", "stop", "rain_mm", "boardings"])
        for r in tickets:
            r = list(r)
            if side == "bug":
                r[2] = r[2].lstrip("0")
            w.writerow(r)
    (out / "run.ini").write_text("[split]\nfirst_valid_date = 2023-06-05\n\n[train]\nepochs = 24\nbatch = 64\n"
                                 "lr = 0.002\nhidden = 64\nseed = 4\n")
