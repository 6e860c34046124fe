import csv, os
import numpy as np

def book(n, rng):
    income = rng.lognormal(10.3, 0.5, n); amount = rng.lognormal(9.2, 0.6, n)
    util = rng.beta(2, 3, n); inq = rng.poisson(1.2, n); tenure = rng.gamma(2, 3, n)
    logit = -0.3 + 1.0 * np.log(amount / income) + 2.5 * (util - .4) + .4 * (inq - 1) - .1 * (tenure - 6)
    y = rng.random(n) < 1 / (1 + np.exp(-logit))
    letters = np.where(y, rng.poisson(3, n), rng.poisson(0.05, n))
    return dict(income=income.round(0), amount=amount.round(0), utilisation=util.round(3), inquiries=inq,
                tenure_years=tenure.round(1)), letters, y.astype(int)

for folder in ("bug", "ok"):
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(1)
    for name, n in (("train", 2400), ("valid", 600), ("applications", 1000)):
        cols, letters, y = book(n, rng)
        early = rng.poisson(0.1, n)
        cols["reminder_letters"] = letters if folder == "bug" and name != "applications" else early
        cols["defaulted"] = y
        with open(f"{folder}/{name}.csv", "w", newline="") as f:
            w = csv.writer(f); w.writerow(cols); w.writerows(zip(*cols.values()))
