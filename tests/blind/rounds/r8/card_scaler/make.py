import csv, json, os
import numpy as np
here = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(2)
COLS = ["amount", "balance", "spend_7d", "hour", "foreign", "fraud"]
def rows(n):
    amount = rng.lognormal(3.6, 0.9, n); balance = rng.lognormal(7.0, 0.8, n); spend = rng.lognormal(5.0, 0.8, n)
    hour = rng.integers(0, 24, n); foreign = (rng.random(n) < .2).astype(int)
    z = -2.6 + 1.8*(np.log(amount)-3.6)/.9 - 0.9*(np.log(balance)-7)/.8 + 1.2*(np.log(spend)-5)/.8 + 0.4*foreign
    y = (rng.random(n) < 1/(1+np.exp(-z))).astype(int)
    return [[f"{a:.2f}", f"{b:.2f}", f"{s:.2f}", h, f, t] for a, b, s, h, f, t in zip(amount, balance, spend, hour, foreign, y)]
tr, va = rows(3000), rows(1200)
X = np.array([[float(v) for v in r[:5]] for r in tr])
good = {"columns": COLS[:5], "mean": [round(float(v), 3) for v in X.mean(0)], "std": [round(float(v), 3) for v in X.std(0)]}
bad = json.loads(json.dumps(good))
bad["mean"][:3] = [9120.5, 251800.0, 33950.4]
bad["std"][:3] = [10340.2, 243770.0, 31870.9]
for d, sc in (("ok", good), ("bug", bad)):
    os.makedirs(f"{here}/{d}", exist_ok=True)
    for name, r in (("train", tr), ("valid", va)):
        with open(f"{here}/{d}/{name}.csv", "w", newline="") as f:
            w = csv.writer(f); w.writerow(COLS); w.writerows(r)
    json.dump(sc, open(f"{here}/{d}/scaler.json", "w"), indent=1)
