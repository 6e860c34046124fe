import csv, json, os
import numpy as np
for folder in ("bug", "ok"):
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(6)
    with open(f"{folder}/claims.csv", "w", newline="") as f:
        w = csv.writer(f); w.writerow(["vehicle_value", "age", "speed_zone", "injury", "liability_share", "paid"])
        for _ in range(2600):
            v, a, z, i, s = rng.lognormal(9.6, .5), rng.uniform(18, 80), rng.choice([30, 50, 70, 100]), rng.random() < .15, rng.uniform(.2, 1)
            p = np.exp(2.2 + .55 * np.log(v) + .01 * z + 1.2 * i + .9 * np.log(s) + rng.normal(0, .35))
            w.writerow([round(v), round(a), z, int(i), round(s, 2), round(p)])
    json.dump({"hidden": 32, "epochs": 15, "batch_size": 64, "lr": 0.05, "momentum": 0.9,
               "max_grad_norm": 0.001 if folder == "bug" else 1.0, "valid_share": 0.2, "seed": 2}, open(f"{folder}/config.json", "w"), indent=2)
