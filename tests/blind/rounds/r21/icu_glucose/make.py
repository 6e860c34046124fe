"""Patient-day records collected from two hospitals."""
import json
import os

import numpy as np

rng = np.random.default_rng(88)
N = 3000


def records(n):
    out = []
    for i in range(n):
        site = "north" if rng.random() < 0.55 else "lakeside"
        glucose = float(np.clip(rng.lognormal(np.log(128), 0.38), 45, 420))
        creatinine = float(rng.lognormal(np.log(1.05), 0.45))
        lactate = float(rng.lognormal(np.log(1.4), 0.5))
        heart = float(rng.normal(88, 16))
        map_ = float(rng.normal(78, 12))
        age = int(rng.integers(22, 91))
        steroid = int(rng.random() < 0.25)
        units = 0.055 * max(glucose - 110, 0) * (1 + 0.5 * steroid) * min(1.0, 1.6 / (0.6 + creatinine))
        units += 0.8 * max(lactate - 2, 0) - 0.02 * (age - 60) + 1.5 * steroid
        units += 0.03 * (heart - 88) - 0.02 * (map_ - 78) + rng.normal(0, 0.6)
        out.append({"patient": f"P{i:05d}", "site": site, "glucose": round(glucose, 1), "creatinine": round(creatinine, 2),
                    "lactate": round(lactate, 2), "heart_rate": round(heart), "map": round(map_), "age": age,
                    "steroid": steroid, "insulin_units": round(max(units, 0.0), 2)})
    return out


rows = records(N)
for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    with open(f"{side}/records.jsonl", "w") as f:
        for r in rows:
            r = dict(r)
            if side == "bug" and r["site"] == "lakeside":
                r["glucose"] = round(r["glucose"] / 18.016, 1)
            f.write(json.dumps(r) + "\n")
