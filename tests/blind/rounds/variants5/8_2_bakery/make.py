from pathlib import Path
import json, numpy as np, pandas as pd
here = Path(__file__).parent
rng = np.random.default_rng(77)
dates = pd.date_range("2022-01-03", periods=420); out = []
for s in range(10):
    base = rng.uniform(80, 110); wk = 12 * rng.normal(size=7); lvl = 0.0; v = []
    promo = rng.random(420) < .12; temp = 12 + 10 * np.sin(np.arange(420) / 58) + rng.normal(0, 3, 420)
    for i in range(420):
        lvl = .85 * lvl + rng.normal(0, 8); v.append(base + wk[i % 7] + lvl + 14 * promo[i] - .4 * (temp[i] - 12) + rng.normal(0, 16))
    out.append(pd.DataFrame(dict(date=dates, store=s, promo=promo.astype(int), temperature_forecast=temp.round(1), sold=np.round(v))))
S = pd.concat(out)
g = S.groupby("store")["sold"]
H = S[["date", "store"]].copy()
for k in (1, 2, 7): H[f"lag_{k}"] = g.shift(k)
for side in ("bug", "ok"):
    F = H.copy(); b = 0 if side == "bug" else 1
    for w in (3, 14): F[f"mean_{w}"] = S.groupby("store")["sold"].transform(lambda x: x.shift(b).rolling(w).mean()).round(2)
    d = here / side; d.mkdir(exist_ok=True)
    S.to_csv(d / "sales.csv", index=False); F.to_csv(d / "history_features.csv", index=False)
    json.dump(dict(seed=6, valid_from="2022-11-15", test_from="2022-12-31", dim=6, width=48, lr=.002, batch_size=50, epochs=12), open(d / "forecast.json", "w"), indent=2)
