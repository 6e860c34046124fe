from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
NAMES = ["mol_weight", "ring_fraction", "rotatable", "hbond", "polarity", "branching", "density"]


def batch(n, rng):
    stiff = rng.normal(0, 1, n)
    polar = rng.normal(0, 1, n)
    x = np.stack([np.exp(rng.normal(10, .5, n)), .3 + .1 * stiff + .04 * rng.normal(0, 1, n), 6 - 1.5 * stiff + rng.normal(0, 1, n), 2 + polar + .5 * rng.normal(0, 1, n),
                  .5 + .2 * polar + .1 * rng.normal(0, 1, n), rng.beta(2, 5, n), 1.1 + .05 * stiff + .03 * rng.normal(0, 1, n)], 1)
    tg = 90 + 160 * x[:, 1] - 6 * x[:, 2] + 12 * x[:, 3] + 25 * np.tanh(2 * x[:, 1] * x[:, 3] - 1) - 30 * x[:, 5] + rng.normal(0, 8, n)
    ids = np.arange(1, n + 1).astype(str)
    return ids, pd.DataFrame(x, columns=NAMES).round(4), tg.round(1)


for name in ("bug", "ok"):
    rng = np.random.default_rng(2)
    out = HERE / name
    out.mkdir(exist_ok=True)
    for part, n in (("train", 2400), ("valid", 700)):
        ids, x, tg = batch(n, rng)
        x.insert(0, "sample", ids)
        x.to_csv(out / f"{part}_descriptors.csv", index=False)
        meas = pd.DataFrame(dict(sample=ids, tg=tg))
        if name == "bug" and part == "train":
            meas = meas.sort_values("sample")
        meas.to_csv(out / f"{part}_glass_temp.csv", index=False)
