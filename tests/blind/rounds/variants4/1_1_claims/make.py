from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent


def table(n, rng, bug):
    region = rng.choice(["north", "south", "east", "west", "centre"], n)
    kind = rng.choice(["collision", "theft", "glass", "fire"], n, p=[0.5, 0.2, 0.22, 0.08])
    amount = np.exp(rng.normal(7.6, 0.7, n) + 0.4 * (kind == "fire"))
    age = rng.integers(0, 16, n)
    months = rng.integers(1, 120, n)
    prior = rng.poisson(0.6, n)
    delay = rng.gamma(1.3, 4.0, n).round(0)
    z = (0.8 * (np.log(amount) - 7.6) + 0.45 * prior - 0.012 * (months - 40) + 0.06 * delay
         + 0.9 * (kind == "theft") + 0.5 * (region == "south") - 2.0)
    y = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int)
    noise = rng.normal(0, 0.35, n)
    handling = np.exp(3.6 + 0.25 * (np.log(amount) - 7.6) + 0.2 * (kind == "fire") + noise)
    if bug:
        handling = handling * np.where(y == 1, 3.2, 1.0)
    return pd.DataFrame(dict(claim_amount=amount.round(2), vehicle_age=age, policy_months=months, prior_claims=prior,
                             report_delay_days=delay, handling_cost=handling.round(2), region=region,
                             incident_type=kind, fraud=y))


for name in ("bug", "ok"):
    rng = np.random.default_rng(5)
    out = HERE / name
    out.mkdir(exist_ok=True)
    table(5000, rng, name == "bug").to_csv(out / "claims_train.csv", index=False)
    table(2000, rng, name == "bug").to_csv(out / "claims_valid.csv", index=False)
