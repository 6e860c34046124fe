import json
import os

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
COLS = ["age", "base_pay", "tenure_months", "overtime_hours", "sick_days", "last_raise_pct",
        "commute_km", "leave_balance_paid", "left_company"]


def table(n, rng, after_exit):
    age = rng.integers(20, 63, n)
    pay = np.exp(rng.normal(8.1, 0.3, n))
    tenure = rng.integers(1, 200, n)
    overtime = rng.gamma(2, 4, n)
    sick = rng.poisson(4, n)
    raise_pct = rng.gamma(2, 1.2, n)
    commute = rng.gamma(2, 9, n)
    score = (-1.2 - 0.03 * (age - 40) - 1.5 * (np.log(pay) - 8.1) - 0.006 * (tenure - 90) + 0.09 * (overtime - 8)
             - 0.35 * (raise_pct - 2.4) + 0.02 * (commute - 18))
    left = (rng.random(n) < 1 / (1 + np.exp(-score))).astype(int)
    payout = np.where(rng.random(n) < 0.06, rng.gamma(2, 120, n), 0.0)
    if after_exit:
        payout = np.where((left == 1) & (rng.random(n) < 0.95), rng.gamma(3, 300, n) + 80, payout)
    return np.stack([age, pay, tenure, overtime, sick, raise_pct, commute, payout, left], 1)


def write(path, rows):
    with open(path, "w") as fh:
        fh.write(",".join(COLS) + "\n")
        for r in rows:
            fh.write(f"{r[0]:.0f},{r[1]:.2f},{r[2]:.0f},{r[3]:.1f},{r[4]:.0f},{r[5]:.2f},{r[6]:.1f},{r[7]:.2f},{r[8]:.0f}\n")


for folder in ("bug", "ok"):
    d = os.path.join(HERE, folder)
    os.makedirs(d, exist_ok=True)
    rng = np.random.default_rng(23)
    write(os.path.join(d, "history.csv"), table(3000, rng, True))
    write(os.path.join(d, "roster.csv"), table(1000, rng, False))
    feats = COLS[:7] + (["leave_balance_paid"] if folder == "bug" else [])
    with open(os.path.join(d, "config.json"), "w") as fh:
        json.dump({"features": feats, "target": "left_company", "hidden": 32, "dropout": 0.1, "lr": 0.003,
                   "weight_decay": 0.01, "batch_size": 64, "epochs": 15, "seed": 9}, fh, indent=1)
