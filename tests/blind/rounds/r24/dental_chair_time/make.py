import csv
from pathlib import Path

import numpy as np

FDI = [q * 10 + k for q in (1, 2, 3, 4) for k in range(1, 9)]
UNIVERSAL = {**{10 + k: 9 - k for k in range(1, 9)}, **{20 + k: 8 + k for k in range(1, 9)},
             **{30 + k: 25 - k for k in range(1, 9)}, **{40 + k: 24 + k for k in range(1, 9)}}
PROC = {"filling": 22, "endo": 34, "extraction": 18, "crown": 40, "scaling": 9}
BASE = [0, 0, 3, 5, 7, 16, 21, 27]


def visits(n, rng):
    rows = []
    for _ in range(n):
        k = rng.choice(8, p=np.array([6, 5, 6, 8, 10, 24, 24, 17]) / 100) + 1
        tooth = int(rng.integers(1, 5)) * 10 + int(k)
        proc = str(rng.choice(list(PROC)))
        age, anx, surf = int(rng.integers(9, 85)), int(rng.integers(0, 6)), int(rng.integers(1, 6))
        assist, year = int(rng.random() < 0.7), int(rng.integers(1, 26))
        t = PROC[proc] + BASE[k - 1] * (1.2 if proc in ("endo", "extraction") else 0.7) + (4 if tooth < 30 and k > 5 else 0)
        t += 1.6 * anx + (2.5 * surf if proc == "filling" else 0) - 5 * assist - 0.2 * year + 0.04 * abs(age - 40)
        rows.append([tooth, proc, age, anx, surf, assist, year, round(float(t + rng.normal(0, 3)), 1)])
    return rows


def save(path, rows):
    with open(path, "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["tooth", "procedure", "age", "anxiety", "surfaces", "assistant", "dentist_years", "chair_minutes"])
        w.writerows(rows)


here = Path(__file__).parent
rng = np.random.default_rng(41)
train, valid = visits(3200, rng), visits(800, rng)
for side in ("bug", "ok"):
    (here / side).mkdir(exist_ok=True)
    save(here / side / "visits_2022_2023.csv", train)
    rows = [[UNIVERSAL[r[0]], *r[1:]] for r in valid] if side == "bug" else valid
    save(here / side / "visits_2024.csv", rows)
