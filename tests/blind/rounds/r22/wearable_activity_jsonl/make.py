import json
import os

import numpy as np

ACTS = ["sitting", "walking", "running", "cycling", "stairs"]
CENTER = {"ax": [0.05, 0.30, 0.80, 0.30, 0.38], "ay": [0.04, 0.25, 0.60, 0.12, 0.33], "az": [0.99, 1.05, 1.30, 1.02, 1.10],
          "jerk": [0.1, 0.5, 1.2, 0.7, 0.6], "cadence": [2, 55, 82, 70, 48]}
SPREAD = {"ax": 0.07, "ay": 0.05, "az": 0.05, "jerk": 0.12, "cadence": 9}


def windows(n, rng, factor):
    for _ in range(n):
        a = int(rng.integers(5))
        rec = {"activity": ACTS[a]}
        for k in CENTER:
            v = max(0.0, rng.normal(CENTER[k][a], SPREAD[k]))
            rec[k] = round(v * (factor if k != "cadence" else 1), 4)
        yield rec


for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    rng = np.random.default_rng(41)
    for name, n in (("wrist_site_a", 900), ("wrist_site_b", 900), ("wrist_site_c", 500), ("validation", 700)):
        factor = 1000.0 if (side == "bug" and name == "wrist_site_c") else 1.0
        with open(f"{side}/{name}.jsonl", "w") as f:
            for rec in windows(n, rng, factor):
                f.write(json.dumps(rec) + "\n")
