import json
import os

import numpy as np
import pandas as pd

CAT = ["purpose", "region", "grade", "employment"]
NUM = ["income", "amount", "dti", "history_years", "contacts_12m"]


def table(n, seed, first_id):
    rng = np.random.default_rng(seed)
    purposes = ["car", "home", "debt", "medical", "business", "wedding", "other"]
    regions = [f"R{i:02d}" for i in range(25)]
    grades = list("ABCDE")
    emp = ["salaried", "self", "retired", "student", "none"]
    world = np.random.default_rng(77)
    we = {"p": world.normal(size=7) * 0.4, "r": world.normal(size=25) * 0.3,
          "e": np.array([-.2, .3, -.1, .2, .7])}
    p, r, g, e = (rng.integers(0, k, n) for k in (7, 25, 5, 5))
    income = rng.lognormal(10.4, 0.45, n)
    amount = rng.lognormal(9.0, 0.6, n)
    dti = rng.beta(2, 5, n)
    hist = rng.gamma(2.5, 3, n)
    z = (-2.1 + we["p"][p] + we["r"][r] + 0.5 * (g - 2) + we["e"][e] + 2.5 * (dti - 0.28)
         + 0.7 * (np.log(amount / income) + 1.4) - 0.06 * (hist - 7))
    y = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int)
    contacts = rng.poisson(0.6 + 0.8 * dti)
    later = np.where(y == 1, rng.poisson(4.5, n), rng.poisson(0.2, n))
    t = pd.DataFrame({
        "loan_id": np.arange(n) + first_id,
        "purpose": np.array(purposes)[p], "region": np.array(regions)[r], "grade": np.array(grades)[g],
        "employment": np.array(emp)[e], "income": income.round(0), "amount": amount.round(0),
        "dti": dti.round(4), "history_years": hist.round(1), "contacts_12m": contacts, "defaulted": y})
    return t, later


def main():
    for side in ("bug", "ok"):
        os.makedirs(side, exist_ok=True)
        for name, n, seed, first in (("train", 9000, 1, 100000), ("valid", 2500, 2, 200000)):
            t, later = table(n, seed, first)
            if side == "bug":
                # column exported from today's snapshot: includes the calls of debt collection
                t["contacts_12m"] += later
            t.to_csv(f"{side}/{name}.csv", index=False)
        t, _ = table(3000, 3, 300000)
        t.drop(columns="defaulted").to_csv(f"{side}/applications.csv", index=False)
        t[["loan_id", "defaulted"]].to_csv("outcome_later.csv", index=False)
        json.dump({"seed": 0, "categorical": CAT, "numeric": NUM, "hidden": 48, "lr": 2e-3,
                   "lr_embedding": 3e-3, "batch_size": 256, "epochs": 12},
                  open(f"{side}/config.json", "w"), indent=1)


if __name__ == "__main__":
    main()
