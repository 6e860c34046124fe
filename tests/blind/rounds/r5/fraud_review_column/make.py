import json, csv, numpy as np
rng = np.random.default_rng(0)
cols = ["amount", "hour", "velocity", "account_age", "distance", "review_outcome", "fraud"]
def rows(n, live=False):
    out = []
    for _ in range(n):
        f = int(rng.random() < 0.2)
        amount = rng.lognormal(3.6 + 0.7 * f, 0.8); hour = int(rng.integers(0, 24))
        vel = rng.poisson(2 + 1.3 * f); age = rng.gamma(3, 20 - 5 * f); dist = rng.gamma(2, 10 + 7 * f)
        rev = 0 if live else (int(rng.integers(1, 4)) if f and rng.random() < .97 else 0)
        out.append([round(amount, 2), hour, int(vel), round(age, 1), round(dist, 1), rev, f])
    return out
parts = {"train": rows(2200), "valid": rows(800), "live": rows(800, True)}
feats = cols[:-1]
for k in ("bug", "ok"):
    for name, r in parts.items():
        with open(f"{k}/{name}.csv", "w", newline="") as f:
            w = csv.writer(f); w.writerow(cols); w.writerows(r)
    json.dump({"features": feats if k == "bug" else feats[:-1], "target": "fraud", "lr": 0.003, "epochs": 10, "batch_size": 64}, open(f"{k}/config.json", "w"), indent=1)
