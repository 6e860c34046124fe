import json
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
FEATS = ["wait_minutes", "visits", "age", "price_index", "staff_ratio", "complaints", "distance_km"]


def wave(n, rng):
    mood = rng.normal(0, 1, n)
    d = pd.DataFrame(dict(wait_minutes=np.exp(2.8 - .5 * mood + rng.normal(0, .4, n)).round(0), visits=rng.poisson(3, n), age=rng.integers(18, 85, n),
                          price_index=(100 + rng.normal(0, 12, n)).round(1), staff_ratio=(.2 + .05 * mood + rng.normal(0, .04, n)).round(3),
                          complaints=rng.poisson(np.exp(-.5 * mood - .5)), distance_km=rng.gamma(2, 3, n).round(1)))
    z = 1.1 * mood - .35 * d.complaints - .03 * (d.price_index - 100) + .01 * (d.age - 50) - .03 * d.distance_km + rng.normal(0, .4, n) + .3
    d["satisfaction"] = 1 + (z.to_numpy()[:, None] > np.array([-1.5, -.5, .5, 1.4])).sum(1)
    return d


for name in ("bug", "ok"):
    rng = np.random.default_rng(52)
    out = HERE / name
    out.mkdir(exist_ok=True)
    files = [f"wave_{k}.csv" for k in (2018, 2019, 2020, 2021, 2022)]
    for k, fn in enumerate(files):
        d = wave(900, rng)
        if name == "bug" and k in (0, 1):
            d["satisfaction"] = 6 - d.satisfaction
        d.to_csv(out / fn, index=False)
    cfg = dict(train_waves=files[:4], valid_waves=files[4:], features=FEATS, levels=5, lr=3e-3, batch=64, epochs=16, seed=15)
    (out / "survey.json").write_text(json.dumps(cfg, indent=1))
