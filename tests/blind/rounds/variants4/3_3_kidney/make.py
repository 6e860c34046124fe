from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent


def ward(n, rng, sites):
    age = rng.normal(64, 13, n).clip(20, 95)
    diab = (rng.random(n) < 0.25).astype(int)
    sick = rng.normal(0, 1, n) + 0.02 * (age - 64) + 0.4 * diab
    d = pd.DataFrame(dict(site=rng.choice(sites, n), age=age.round(0), diabetes=diab,
                          sbp=(128 - 6 * sick + rng.normal(0, 14, n)).round(0),
                          creatinine=np.exp(0.05 + 0.3 * sick + rng.normal(0, .2, n)).round(2),
                          urea=np.exp(3.4 + 0.25 * sick + rng.normal(0, .3, n)).round(1),
                          potassium=(4.2 + 0.15 * sick + rng.normal(0, .4, n)).round(1),
                          hemoglobin=(13 - 0.6 * sick + rng.normal(0, 1.4, n)).round(1),
                          albumin=(3.9 - 0.2 * sick + rng.normal(0, .4, n)).round(1)))
    d["aki"] = (rng.random(n) < 1 / (1 + np.exp(-(1.9 * sick - 1.2)))).astype(int)
    return d


for name in ("bug", "ok"):
    rng = np.random.default_rng(9)
    out = HERE / name
    out.mkdir(exist_ok=True)
    ward(4000, rng, ["A", "B", "C"]).to_csv(out / "development.csv", index=False)
    v = ward(1500, rng, ["A", "B", "C"])
    if name == "bug":
        si = v.site == "C"
        v.loc[si, "creatinine"] = (v.creatinine[si] * 88.4).round(0)
        v.loc[si, "hemoglobin"] = (v.hemoglobin[si] * 10).round(0)
    v.to_csv(out / "validation.csv", index=False)
