"""Port calls of one year joined with the inspections, written as one table per year for the detention model."""
import csv
import json
import os

import numpy as np

FLAGS = ["white", "grey", "black"]
TYPES = ["bulk", "tanker", "container", "general", "ro-ro"]
HEAD = ["call_id", "ship_type", "flag_list", "age_years", "gross_tonnage", "months_since_last",
        "last_deficiencies", "class_changes", "draught_m", "berth_hours", "detained"]


def year(seed, n, actual_stay):
    rng = np.random.default_rng(seed)
    rows = []
    for k in range(n):
        kind = rng.integers(5)
        flag = rng.choice(3, p=[0.55, 0.3, 0.15])
        age = min(45.0, rng.gamma(3.0, 5.0))
        gt = float(np.exp(rng.normal(9.6, 0.8)))
        months = rng.uniform(1, 36)
        last = rng.poisson(1.5 + 0.15 * age + 1.2 * flag)
        changes = rng.poisson(0.3 + 0.4 * flag)
        draught = 3.0 + 0.9 * np.log(gt) - 2.5 + rng.normal(0, 0.6)
        declared = (14 + 5.5 * kind + 3.0 * (np.log(gt) - 9.6)) * float(np.exp(rng.normal(0, 0.25)))
        z = (-2.1 + 0.085 * (age - 15) + 0.7 * flag + 0.22 * (last - 4) + 0.5 * changes
             + 0.035 * (months - 18) + (0.8 if kind == 3 else 0.0) + 0.01 * (age - 15) * (last - 4))
        detained = int(rng.random() < 1 / (1 + np.exp(-1.5 * z)))
        repair = rng.gamma(3.0, 14.0)
        delay = float(np.exp(rng.normal(0, 0.18)))
        stay = declared
        if actual_stay:
            stay = declared * delay + (8 + repair if detained else 0.0)
        rows.append([f"C{seed}-{k:05d}", TYPES[kind], FLAGS[flag], round(age, 1), round(gt), round(months, 1),
                     last, changes, round(draught, 1), round(stay, 1), detained])
    return rows


def write(folder, actual_stay):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "port_calls_2022.csv"), "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(HEAD)
        w.writerows(year(2022, 4200, actual_stay))
    with open(os.path.join(folder, "port_calls_2023.csv"), "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(HEAD)
        w.writerows(year(2023, 1500, actual_stay))
    with open(os.path.join(folder, "model.json"), "w") as f:
        json.dump({"seed": 12, "hidden": [64, 32], "dropout": 0.15, "epochs": 9, "batch": 128, "lr": 0.002}, f)


if __name__ == "__main__":
    # declared hours, as they stand in the arrival notice
    write("ok", actual_stay=False)
    # the port office overwrites the field at departure with the hours between mooring and casting off
    write("bug", actual_stay=True)
