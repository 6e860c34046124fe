import json
import os
import numpy as np

rng = np.random.default_rng(13)
COLS = ["age", "bmi", "hb", "wbc", "plt", "na", "k", "crea", "alb", "crp", "sbp", "hr", "spo2", "ldl"]
W = np.zeros(len(COLS))
W[[0, 7, 8, 9]] = [0.9, 0.8, -0.8, 0.8]


def cohort(n, first):
    rows = []
    for p in range(n):
        usual = rng.normal(size=len(COLS))
        frail = float(usual @ W + rng.normal(0, 1.3) > 0.1)
        for _ in range(rng.integers(3, 7)):
            rows.append((first + p, usual + rng.normal(0, 0.2, len(COLS)), int(frail if rng.random() < 0.95 else 1 - frail)))
    order = rng.permutation(len(rows))
    return [rows[i] for i in order]


def write(path, rows):
    with open(path, "w") as fh:
        fh.write("patient," + ",".join(COLS) + ",readmitted\n")
        for p, x, y in rows:
            fh.write(f"{p}," + ",".join(f"{v:.2f}" for v in x) + f",{y}\n")


dev, later = cohort(300, 1000), cohort(150, 5000)
n = len(dev)
patients = np.array([r[0] for r in dev])
for folder in ("ok", "bug"):
    os.makedirs(folder, exist_ok=True)
    write(f"{folder}/admissions.csv", dev)
    write(f"{folder}/next_year.csv", later)
    pick = np.random.default_rng(3)
    if folder == "ok":
        chosen = pick.permutation(np.unique(patients))[:75]
        val = np.nonzero(np.isin(patients, chosen))[0]
    else:
        val = np.sort(pick.permutation(n)[:n // 4])
    train = np.setdiff1d(np.arange(n), val)
    json.dump({"train": train.tolist(), "val": val.tolist()}, open(f"{folder}/split.json", "w"))
