import csv, json, os
import numpy as np
rng = np.random.default_rng(4)
n = 2400
logins = rng.poisson(6, n)
minutes = rng.gamma(2.0, 40, n)
quiz = np.clip(rng.normal(0.6, 0.2, n), 0, 1)
forum = rng.poisson(1.2, n)
age = rng.integers(17, 60, n)
paid = rng.integers(0, 2, n)
z = 0.9 - 0.25 * (logins - 6) - 0.006 * (minutes - 80) - 3.0 * (quiz - 0.6) - 0.3 * forum - 0.7 * paid
drop = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int)
last = np.where(drop == 1, rng.integers(1, 6, n), np.where(rng.random(n) < 0.97, 10, rng.integers(5, 9, n)))
rows = list(zip(logins, minutes.round(1), quiz.round(3), forum, age, paid, last, drop))
header = ["logins_w1", "minutes_w1", "quiz_w1", "forum_w1", "age", "paid_track", "last_active_week", "dropped"]
for folder in ("bug", "ok"):
    os.makedirs(folder, exist_ok=True)
    for name, part in (("train.csv", rows[:1800]), ("valid.csv", rows[1800:])):
        with open(f"{folder}/{name}", "w", newline="") as f:
            w = csv.writer(f); w.writerow(header); w.writerows(part)
    feats = header[:6] + (["last_active_week"] if folder == "bug" else [])
    json.dump({"features": feats, "target": "dropped", "lr": 0.003, "epochs": 15, "batch_size": 64, "hidden": 32, "seed": 4},
              open(f"{folder}/config.json", "w"), indent=2)
