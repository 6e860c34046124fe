import csv, os
import numpy as np
for folder in ("bug", "ok"):
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(14)
    for name, n in (("shipments_train", 2500), ("shipments_valid", 600)):
        km = rng.gamma(2.5, 160, n); kg = rng.lognormal(6, .8, n); vol = kg / rng.uniform(180, 400, n)
        exp = rng.random(n) < .25
        cost = (60 + .45 * km + .04 * kg + 9 * vol + .0002 * km * kg) * (1 + .35 * exp) * rng.normal(1, .04, n)
        dist = km * 0.621371 if folder == "bug" and name.endswith("valid") else km
        wt = kg * 2.20462 if folder == "bug" and name.endswith("valid") else kg
        with open(f"{folder}/{name}.csv", "w", newline="") as f:
            w = csv.writer(f); w.writerow(["shipment", "distance", "weight", "volume", "express", "cost_eur"])
            w.writerows(zip(range(n), dist.round(1), wt.round(1), vol.round(3), exp.astype(int), cost.round(2)))
