from pathlib import Path
import json, numpy as np, pandas as pd
here = Path(__file__).parent
rng = np.random.default_rng(5)
n = 4000
tenure = rng.gamma(2, 14, n).clip(1, 72); contract = rng.choice(["monthly", "yearly", "two_year"], n, p=[.55, .25, .2])
pay = rng.choice(["card", "transfer", "check"], n); monthly = rng.normal(65, 25, n).clip(18); total = monthly * tenure * rng.normal(1, .05, n)
calls = rng.poisson(1.5, n); outage = rng.exponential(2, n); age = rng.normal(45, 14, n).clip(18)
lg = -.8 - .05 * tenure + 1.4 * (contract == "monthly") + .9 * (pay == "check") + .02 * (monthly - 65) + .6 * (calls - 1.5) + .35 * np.minimum(outage, 5) - .00002 * (age - 50) ** 2
y = (rng.random(n) < 1 / (1 + np.exp(-1.3 * lg))).astype(int)
df = pd.DataFrame(dict(customer_id=np.arange(70000, 70000 + n), tenure_months=tenure.round(0), contract=contract, payment=pay, monthly_charge=monthly.round(2),
                       total_charge=total.round(2), support_calls=calls, outage_hours=outage.round(2), age=age.round(0), churned=y))
for side, acc in (("bug", 64), ("ok", 4)):
    d = here / side; d.mkdir(exist_ok=True)
    df.to_csv(d / "customers.csv", index=False)
    json.dump(dict(batch_size=64, accumulate=acc, epochs=25, lr=0.003, hidden=48, seed=17), open(d / "options.json", "w"), indent=1)
