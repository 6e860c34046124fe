import csv
import numpy as np

g = np.random.default_rng(21)
days = [31, 28, 31, 30, 31, 30, 31]
zone_base = g.uniform(1.6, 3.0, 9)
for m, nd in enumerate(days, start=1):
    rows = []
    for d in range(nd):
        temp_day = 4 + 2.6 * m + g.normal(0, 3)
        wet = g.random() < 0.3
        for h in range(0, 24, 2):
            rain = g.gamma(1.2, 1.6) if wet and g.random() < .6 else 0.0
            for z in range(9):
                if g.random() < .45:
                    continue
                dist = float(np.clip(g.gamma(1.7, 2.4), .1, 18))
                dow = (d + 3 * m) % 7
                rate = zone_base[z] + .7 * np.sin((h - 11) / 24 * 2 * np.pi) + .09 * rain + (.35 if dow >= 5 and h >= 20 else 0)
                rate += 2.3 * np.exp(-dist / 2.5) - .004 * (temp_day - 15) ** 2 / 4
                y = g.poisson(np.exp(np.clip(rate, 0, 5.2)))
                rows.append((d + 1, h, dow, z, round(temp_day + g.normal(0, 1), 1), round(rain, 1), dist, y))
    for side in ("bug", "ok"):
        with open(f"{side}/rides_2023_{m:02d}.csv", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow("day hour weekday zone temp_c rain_mm event_distance driver_requests".split())
            for r in rows:
                r = list(r)
                r[6] = round(r[6] * 1000) if side == "bug" and m == 4 else round(r[6], 2)
                w.writerow(r)
