import json
from pathlib import Path
import numpy as np
rng = np.random.default_rng(77)
def build(n):
    area = rng.lognormal(4.2, 0.35, n); rooms = np.clip(np.round(area / 25 + rng.normal(0, .5, n)), 1, 7)
    floor = rng.integers(0, 10, n); year = rng.integers(1900, 2022, n); km = rng.gamma(2, 3, n); lift = rng.integers(0, 2, n)
    price = (2600 * area + 9000 * rooms + 1800 * floor * lift + 420 * (year - 1900) + 150000 * np.exp(-km / 5)) * rng.lognormal(0, .08, n)
    return ["area_m2,rooms,floor,year_built,km_center,lift,price_eur"] + [f"{a:.1f},{int(r)},{f},{y},{k:.2f},{l},{p:.0f}" for a, r, f, y, k, l, p in zip(area, rooms, floor, year, km, lift, price)]
files = {"flats_train.csv": build(1500), "flats_val.csv": build(400)}
for d, unit in (("ok", 100000.0), ("bug", 1.0)):
    Path(d).mkdir(exist_ok=True)
    for k, v in files.items():
        (Path(d) / k).write_text("\n".join(v) + "\n")
    (Path(d) / "config.json").write_text(json.dumps({"hidden": [64, 32], "lr": 0.003, "epochs": 20, "batch_size": 64, "price_unit": unit, "seed": 1}, indent=2))
