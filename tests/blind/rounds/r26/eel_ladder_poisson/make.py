"""Writes bug/ and ok/: daily eel counts of four ladders with the river data of the day."""
import json
import os

import numpy as np

LADDERS = ["Weir Mill", "Stoke Lock", "Abbot Sluice", "Tern Gate"]
DAYS = 900


def season(seed):
    rng = np.random.default_rng(seed)
    rows = []
    for k, ladder in enumerate(LADDERS):
        flow = 0.0
        for d in range(DAYS):
            year_day = d % 180 + 90
            flow = 0.88 * flow + rng.normal(0, 0.45)
            q = 9.0 * np.exp(0.8 * flow) * (1 + 0.1 * k)
            temp = 13 + 6 * np.sin((year_day - 100) / 180 * np.pi) + rng.normal(0, 1.5)
            moon = (d % 29.53) / 29.53
            cloud = rng.uniform(0, 8)
            rate = np.exp(0.6 + 0.25 * k + 0.14 * (temp - 13) + 0.9 * np.log(q / 9) + 0.5 * np.cos(2 * np.pi * moon) + 0.06 * cloud)
            count = int(rng.poisson(rate))
            lost = rng.random() < 0.06 + 0.5 / (1 + np.exp(-(np.log(q / 9) - 0.9) * 5))
            rows.append({"ladder": ladder, "day": d, "discharge_m3s": round(q, 2), "water_c": round(temp, 1), "moon_phase": round(moon, 3),
                         "cloud_okta": round(cloud), "eels": None if lost else count, "held": count})
    return rows


def write(folder, total_by_day, seed=41):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "ladders.jsonl"), "w") as f:
        for row in season(seed):
            row = {k: v for k, v in row.items() if k != "held"}
            if total_by_day:
                row["eels"] = sum(v for v in [row["eels"]] if v is not None)
            f.write(json.dumps(row) + "\n")
    with open(os.path.join(folder, "model.json"), "w") as f:
        json.dump({"hidden": [48, 48], "epochs": 14, "lr": 0.003, "batch": 64, "validation_from_day": 720, "seed": 2}, f)


if __name__ == "__main__":
    write("ok", total_by_day=False)
    write("bug", total_by_day=True)
