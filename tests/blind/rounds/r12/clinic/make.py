"""Follow-up of clinic patients, exported from an R session; writes bug/ and ok/."""
import csv
import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
rng = np.random.default_rng(101)
HEAD = ["age", "stage", "smoker", "crp", "albumin", "bmi", "months"]


def cohort(n):
    age = rng.normal(62, 11, n)
    stage = rng.integers(1, 5, n)
    smoker = (rng.random(n) < 0.35).astype(int)
    crp = rng.lognormal(1.5, 0.8, n)
    albumin = rng.normal(39, 4.5, n)
    bmi = rng.normal(26, 4, n)
    risk = (0.04 * (age - 62) + 0.6 * (stage - 2.5) + 0.5 * smoker + 0.35 * (np.log(crp) - 1.5)
            - 0.08 * (albumin - 39) + 0.012 * (bmi - 26) ** 2 - 0.2)
    death = 30 * rng.exponential(1, n) ** (1 / 1.3) * np.exp(-risk / 1.3)
    leave = rng.uniform(3, 60, n)
    dead = death <= leave
    months = np.minimum(death, leave)
    rows = [[f"{age[i]:.1f}", stage[i], smoker[i], f"{crp[i]:.2f}", f"{albumin[i]:.1f}", f"{bmi[i]:.1f}",
             f"{months[i]:.3f}"] for i in range(n)]
    return rows, dead


train, test = cohort(1600), cohort(800)
settings = {"event_value": 2, "columns": HEAD[:-1], "log": ["crp"], "epochs": 25, "lr": 0.003, "seed": 4}
for name, value in (("ok", 2), ("bug", 1)):
    d = HERE / name
    d.mkdir(exist_ok=True)
    with open(d / "cohort.csv", "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(HEAD + ["status"])
        w.writerows(r + [1 + int(e)] for r, e in zip(*train))
    with open(d / "external.csv", "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(HEAD + ["died"])
        w.writerows(r + ["yes" if e else "no"] for r, e in zip(*test))
    (d / "settings.json").write_text(json.dumps({**settings, "event_value": value}, indent=1))
