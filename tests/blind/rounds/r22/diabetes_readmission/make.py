import csv
from pathlib import Path

import numpy as np

rng = np.random.default_rng(2)
HOSPITALS = {"north": 900, "river": 900, "south": 700, "west": 700}
FIELDS = ["patient", "sex", "age", "bmi", "glucose", "hba1c", "creatinine", "systolic_bp", "n_visits", "readmitted"]


def patients(n, start):
    rows = []
    for i in range(n):
        sex = rng.choice(["F", "M"])
        age = float(np.clip(rng.normal(61, 13), 25, 95))
        bmi = float(np.clip(rng.normal(29, 5), 17, 50))
        glucose = float(np.clip(rng.normal(150, 45), 60, 400))          # mg/dL
        hba1c = float(np.clip(7.2 + rng.normal(0, 1.3), 4.5, 13))
        creat = float(np.clip(rng.lognormal(0.05, 0.35), 0.4, 6))       # mg/dL
        sbp = float(rng.normal(135, 17))
        visits = int(rng.poisson(2))
        z = (1.5 * (glucose - 150) / 45 + 1.6 * (np.log(creat) - 0.05) / 0.35 + 0.5 * (age - 61) / 13
             + 0.3 * (hba1c - 7.2) / 1.3 + 0.3 * (visits - 2) - 0.6)
        y = int(rng.random() < 1 / (1 + np.exp(-z)))
        rows.append(dict(patient=f"P{start + i:05d}", sex=sex, age=round(age, 1), bmi=round(bmi, 1), glucose=glucose,
                         hba1c=round(hba1c, 1), creatinine=creat, systolic_bp=round(sbp), n_visits=visits,
                         readmitted=y))
    return rows


start = 0
cohorts = {}
for name, n in HOSPITALS.items():
    cohorts[name] = patients(n, start)
    start += n

for side in ("ok", "bug"):
    Path(side).mkdir(exist_ok=True)
    for name, rows in cohorts.items():
        si = side == "bug" and name in ("river", "west")
        with open(Path(side) / f"hospital_{name}.csv", "w", newline="") as fh:
            w = csv.DictWriter(fh, FIELDS)
            w.writeheader()
            for r in rows:
                g, c = r["glucose"], r["creatinine"]
                w.writerow({**r, "glucose": round(g / 18.02, 1) if si else round(g),
                            "creatinine": round(c * 88.42) if si else round(c, 2)})
