import datetime
import os
import numpy as np

rng = np.random.default_rng(8)
DAYS = 560
start = datetime.date(2022, 3, 1)
rows = []
for shop in range(8):
    base, phase, level = rng.uniform(40, 120), rng.integers(7), 0.0
    for d in range(DAYS):
        level = 0.95 * level + rng.normal(0, 0.07)
        week = 1 + 0.45 * np.sin(2 * np.pi * (d + phase) / 7) + 0.15 * np.cos(4 * np.pi * (d + phase) / 7)
        rows.append((f"S{shop}", start + datetime.timedelta(d), int(rng.poisson(base * week * np.exp(level)))))
for folder in ("ok", "bug"):
    os.makedirs(folder, exist_ok=True)
    order = np.random.default_rng(1).permutation(len(rows))
    with open(f"{folder}/sales.csv", "w") as fh:
        fh.write("shop,date,units\n")
        for i in order:
            shop, day, units = rows[i]
            stamp = day.isoformat() if folder == "ok" else f"{day.day:02d}.{day.month:02d}.{day.year}"
            fh.write(f"{shop},{stamp},{units}\n")
