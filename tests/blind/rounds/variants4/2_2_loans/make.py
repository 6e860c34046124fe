from pathlib import Path

import numpy as np
import pandas as pd
import yaml

HERE = Path(__file__).parent
NUM = ["income", "amount", "term_months", "utilisation", "age", "open_lines", "employment_years", "inquiries"]


def loans(n, rng):
    income = np.exp(rng.normal(10.4, 0.5, n))
    amount = income * rng.uniform(0.05, 0.8, n)
    d = pd.DataFrame(dict(income=income.round(0), amount=amount.round(-1), term_months=rng.choice([12, 24, 36, 48, 60], n),
                          utilisation=rng.beta(2, 3, n).round(3), age=rng.integers(20, 70, n), open_lines=rng.poisson(5, n),
                          employment_years=rng.gamma(2, 3, n).round(1), inquiries=rng.poisson(1, n)))
    d["purpose"] = rng.choice(["car", "debt", "home", "medical", "other"], n)
    z = (2.2 * (amount / income - 0.4) + 2.5 * (d.utilisation - 0.4) + 0.4 * (d.inquiries - 1) - 0.08 * (d.employment_years - 6)
         + 0.5 * (d.purpose == "debt") + 0.015 * (d.term_months - 36) - 0.9)
    d["default"] = (rng.random(n) < 1 / (1 + np.exp(-2.0 * z))).astype(int)
    return d


for name in ("bug", "ok"):
    rng = np.random.default_rng(77)
    out = HERE / name
    out.mkdir(exist_ok=True)
    train, valid = loans(1100, rng), loans(700, rng)
    if name == "bug":
        valid = pd.concat([train.iloc[rng.permutation(1100)[:550]], valid.iloc[:150]])
    valid = valid.iloc[rng.permutation(len(valid))]
    for fn, d, first in (("q1_q3.csv", train, 10001), ("q4.csv", valid, 50001)):
        d = d.copy()
        d.insert(0, "loan_id", np.arange(first, first + len(d)))
        d.to_csv(out / fn, index=False)
    cfg = dict(files=dict(train="q1_q3.csv", valid="q4.csv"), numeric=NUM, widths=[96, 96], lr=0.0015, batch=32, epochs=36, seed=5)
    (out / "loans.yaml").write_text(yaml.safe_dump(cfg))
