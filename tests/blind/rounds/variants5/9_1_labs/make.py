from pathlib import Path
import numpy as np, pandas as pd
here = Path(__file__).parent
rng = np.random.default_rng(99)
n = 3000
age = rng.normal(66, 14, n).clip(19, 98); stay = rng.gamma(2, 3, n); prior = rng.poisson(.8, n); emerg = rng.integers(0, 2, n)
sev = .3 * (age - 66) / 14 + rng.normal(size=n)
L = dict(creatinine=1.1 * np.exp(.25 * sev + .3 * rng.normal(size=n)), hemoglobin=13 - .9 * sev + rng.normal(size=n), sodium=138 - 1.2 * sev + 3 * rng.normal(size=n), crp=np.exp(2.2 + .5 * sev + .6 * rng.normal(size=n)), albumin=38 - 2 * sev + 3 * rng.normal(size=n))
lg = -1 + .3 * prior + .05 * stay + .2 * emerg + 1.2 * np.log(L["creatinine"] / 1.1) * 1.5 - .7 * (L["hemoglobin"] - 13) / 1.3 - .6 * (L["albumin"] - 38) / 3.6 + .5 * (np.log(L["crp"]) - 2.2)
y = (rng.random(n) < 1 / (1 + np.exp(-1.2 * lg))).astype(int)
num = 1 + np.arange(n)
A = pd.DataFrame(dict(patient_id=[f"P{i:05d}" for i in num], age=age.round(0), stay_days=stay.round(1), prior_admissions=prior, emergency=emerg, readmitted=y))
for side in ("bug", "ok"):
    k = num - 1 if side == "bug" else num
    rows = pd.concat([pd.DataFrame(dict(patient_id=[f"P{i:05d}" for i in k], test=t, value=v.round(2))) for t, v in L.items()])
    keep = np.random.default_rng(1).random(len(rows)) > .08
    d = here / side; d.mkdir(exist_ok=True)
    A.to_csv(d / "admissions.csv", index=False); rows[keep].sort_values(["patient_id", "test"]).to_csv(d / "labs.csv", index=False)
    (d / "model.yaml").write_text("seed: 21\nwidth: 48\ndropout: 0.1\nlr: 0.002\nweight_decay: 0.01\nbatch_size: 64\nepochs: 15\n")
