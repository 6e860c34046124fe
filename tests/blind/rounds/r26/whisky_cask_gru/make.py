import json
import os

import numpy as np

rng = np.random.default_rng(41)

SETTINGS = {
    "seed": 5,
    "epochs": 17,
    "batch_size": 32,
    "hidden": 32,
    "lr": 0.006,
    "curriculum": {"start_quarters": 10, "add_per_epoch": 4.0},
}


def casks(n):
    rows = []
    for i in range(n):
        quarters = int(rng.integers(6, 49))
        site = rng.normal(12.5, 1.6)
        damp = rng.normal(72, 6)
        level = float(rng.integers(1, 7))
        t = np.arange(quarters) + rng.integers(0, 4)
        temp = site + 4.5 * np.sin(t * np.pi / 2) + 0.5 * level + rng.normal(0, 0.8, quarters)
        hum = damp + 5 * np.cos(t * np.pi / 2) + rng.normal(0, 2, quarters)
        rate = 0.42 + 0.05 * (temp - 13) - 0.018 * (hum - 72)
        loss = np.clip(rate, 0.05, None).sum() + rng.normal(0, 0.15)
        rows.append({
            "cask": f"W{i:05d}",
            "loss_pct": round(float(loss), 3),
            "temp_c": [round(float(v), 2) for v in temp],
            "rel_humidity": [round(float(v), 1) for v in hum],
        })
    return rows


train, valid = casks(560), casks(250)
for side in ("ok", "bug"):
    os.makedirs(side, exist_ok=True)
    cfg = json.loads(json.dumps(SETTINGS))
    if side == "bug":
        cfg["curriculum"]["add_per_epoch"] = 0.3
    with open(f"{side}/settings.json", "w") as f:
        json.dump(cfg, f, indent=1)
    for name, rows in (("train", train), ("valid", valid)):
        with open(f"{side}/{name}.jsonl", "w") as f:
            for r in rows:
                f.write(json.dumps(r) + "\n")
