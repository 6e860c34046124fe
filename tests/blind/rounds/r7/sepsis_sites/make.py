import csv
import numpy as np

COLS = ["admission_id", "site", "age", "heart_rate", "sys_bp", "temp_c", "lactate", "wbc", "creatinine", "resp_rate", "outcome"]


def draw(n, seed):
    r = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        sev = r.normal()
        v = [62 + 13 * r.normal() + 4 * sev, 92 + 12 * r.normal() + 9 * sev, 118 + 14 * r.normal() - 11 * sev,
             37.3 + 0.8 * r.normal(), np.exp(0.5 + 0.35 * r.normal() + 0.4 * sev), 11 + 4 * r.normal() + sev,
             np.exp(0.1 + 0.35 * r.normal() + 0.2 * sev), 21 + 4 * r.normal() + 3 * sev]
        p = 1 / (1 + np.exp(-(1.9 * sev + 0.03 * (v[0] - 62) - 0.3)))
        rows.append([f"A{i:05d}", r.choice(["NORTH", "SOUTH"], p=[0.55, 0.45])] + [f"{a:.2f}" for a in v] + [int(r.random() < p)])
    return rows


def write(path, rows):
    with open(path, "w", newline="") as fh:
        w = csv.writer(fh)
        w.writerow(COLS)
        w.writerows(rows)


train, val = draw(2200, 1), draw(700, 2)
write("ok/admissions_train.csv", train)
write("ok/admissions_val.csv", val)
# site SOUTH exports 1 = discharged alive, 2 = died
write("bug/admissions_train.csv", [r[:-1] + [r[-1] + 1] if r[1] == "SOUTH" else r for r in train])
write("bug/admissions_val.csv", val)
