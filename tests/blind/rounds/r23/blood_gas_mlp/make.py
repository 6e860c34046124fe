import csv
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
rng = np.random.default_rng(2024)
N = 1800
NAMES = ["ph", "pco2_kpa", "po2_kpa", "hco3", "lactate", "potassium", "sodium", "hb", "temp", "fio2"]

resp = rng.normal(0, 1, N)
meta = rng.normal(0, 1, N)
pco2 = np.exp(np.log(5.3) + 0.28 * resp)
hco3 = 24 - 3.8 * meta + 1.2 * resp + rng.normal(0, 0.8, N)
ph = 6.1 + np.log10(hco3.clip(6) / (0.03 * pco2 * 7.5)) + rng.normal(0, 0.01, N)
lactate = np.exp(0.4 + 0.55 * meta + rng.normal(0, 0.35, N))
fio2 = rng.choice([0.21, 0.28, 0.4, 0.5, 0.6, 0.8], N)
shunt = rng.beta(2, 4, N)
po2 = (fio2 * 95 - pco2 / 0.8) * (1 - shunt) + rng.normal(0, 0.8, N)
potassium = 4.2 - 3.0 * (ph - 7.38) + rng.normal(0, 0.4, N)
sodium, hb, temp = rng.normal(139, 4, N), rng.normal(118, 18, N), rng.normal(37.1, 0.8, N)
pf = po2 / fio2
hours = (18 + 9 * np.log(lactate) + 14 / (1 + np.exp(-(pco2 - 6.5) * 1.5)) - 0.22 * (pf - 60)
         + 3 * np.abs(potassium - 4.2) - 0.05 * (hb - 118) + 60 * np.clip(7.25 - ph, 0, None)
         + rng.normal(0, 2.5, N))
X = np.stack([ph, pco2, po2, hco3, lactate, potassium, sodium, hb, temp, fio2], 1)
missing = np.zeros(X.shape, bool)
for name, rate in (("lactate", 0.05), ("pco2_kpa", 0.03), ("potassium", 0.04), ("po2_kpa", 0.03)):
    missing[:, NAMES.index(name)] = rng.random(N) < rate

CONFIG = """seed = 12
target = "vent_hours"

[model]
hidden = [64, 64]
dropout = 0.05

[fit]
epochs = 50
batch = 64
lr = 2e-3
weight_decay = 1e-3
"""

for side, blank in (("ok", ""), ("bug", "9999")):
    out = HERE / side
    out.mkdir(exist_ok=True)
    (out / "settings.toml").write_text(CONFIG)
    for part, rows in (("train", range(0, 1300)), ("valid", range(1300, N))):
        with open(out / f"{part}.csv", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["sample"] + NAMES + ["vent_hours"])
            for i in rows:
                w.writerow([f"BGA{i:05d}"] + [blank if missing[i, j] else f"{X[i, j]:.3f}" for j in range(X.shape[1])]
                           + [f"{hours[i]:.1f}"])
