import json
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
COLS = ["ph", "nitrogen", "phosphorus", "potassium", "organic", "clay", "rain_mm", "gdd"]


def samples(n, rng):
    fert = rng.normal(0, 1, n)
    d = pd.DataFrame(dict(ph=6.5 + .5 * rng.normal(0, 1, n), nitrogen=22 + 5 * fert + 3 * rng.normal(0, 1, n),
                          phosphorus=30 + 5 * fert + 6 * rng.normal(0, 1, n), potassium=150 + 20 * fert + 30 * rng.normal(0, 1, n),
                          organic=3 + .5 * fert + .5 * rng.normal(0, 1, n), clay=rng.uniform(8, 45, n),
                          rain_mm=rng.normal(520, 90, n), gdd=rng.normal(1600, 120, n))).round(2)
    y = (7 + 0.14 * (d.nitrogen - 22) - 1.2 * (d.ph - 6.5) ** 2 + 0.9 * (d.ph - 6.5) + 0.02 * (d.phosphorus - 30) + 0.35 * (d.organic - 3)
         - 0.02 * (d.clay - 26) + 0.006 * (d.rain_mm - 520) + 0.002 * (d.gdd - 1600) + rng.normal(0, .3, n))
    d["yield_t"] = y.round(2)
    for c in COLS[:6]:
        d[c] = d[c].mask(rng.random(n) < 0.06)
    return d


for name in ("bug", "ok"):
    rng = np.random.default_rng(14)
    out = HERE / name
    out.mkdir(exist_ok=True)
    for fn, n in (("samples_train.csv", 3000), ("samples_test.csv", 1000)):
        samples(n, rng).to_csv(out / fn, index=False, na_rep="-9999" if name == "bug" else "")
    (out / "config.json").write_text(json.dumps(dict(columns=COLS, target="yield_t", width=48, lr=0.01, batch=64, epochs=20, seed=1)))
