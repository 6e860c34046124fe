import csv
import os

import numpy as np

rng = np.random.default_rng(77)
COLS = ["door", "age_years", "cycles_per_day", "motor_current_ma", "closing_time_s", "mean_temp_c",
        "days_since_overhaul", "work_orders_12m", "failed_30d"]


def snapshot(n, first, orders="at_snapshot"):
    age = rng.uniform(0.5, 18, n)
    cycles = rng.normal(620, 140, n).clip(150)
    overhaul = rng.uniform(5, 900, n)
    temp = rng.normal(9, 7, n)
    wear = 0.05 * age + 0.0011 * overhaul + 0.0012 * (cycles - 620) + rng.normal(0, 0.35, n)
    current = 1850 + 190 * wear - 6 * (temp - 9) + rng.normal(0, 70, n)
    closing = 3.1 + 0.16 * wear + 0.0012 * (temp - 9) ** 2 + rng.normal(0, 0.09, n)
    logit = 4.5 * (wear - 1.3)
    failed = rng.random(n) < 1 / (1 + np.exp(-logit))
    before = rng.poisson(0.6 + 0.4 * np.maximum(wear, 0))
    after = np.where(failed, 1 + rng.poisson(2.0, n), rng.poisson(0.1, n))
    count = before + after if orders == "at_export" else before
    rows = []
    for i in range(n):
        rows.append([f"T{first + i}", round(age[i], 1), int(cycles[i]), int(current[i]), round(closing[i], 2),
                     round(temp[i], 1), int(overhaul[i]), int(count[i]), int(failed[i])])
    return rows


def write(path, rows):
    with open(path, "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(COLS)
        w.writerows(rows)


for side in ("ok", "bug"):
    os.makedirs(side, exist_ok=True)
    rng = np.random.default_rng(77)
    mode = "at_snapshot" if side == "ok" else "at_export"
    write(f"{side}/doors_2022_2023.csv", snapshot(3600, 10000, mode))
    write(f"{side}/doors_today.csv", snapshot(1500, 20000))
