from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent


def houses(n, rng, bug):
    persons = rng.integers(1, 6, n)
    area = rng.normal(55 + 22 * persons, 20, n).clip(25)
    built = rng.integers(1930, 2022, n)
    pump = (rng.random(n) < 0.1 + 0.3 * (built > 2000)).astype(int)
    solar = np.where(rng.random(n) < 0.25, rng.uniform(3, 12, n), 0).round(1)
    base = 700 + 620 * persons + 9 * area + 1900 * pump - 90 * solar
    habit = rng.normal(1.0, 0.2, n)
    before = base * habit * rng.normal(1, 0.12, n)
    now = base * habit * rng.normal(1, 0.12, n)
    start = rng.uniform(2000, 90000, n)
    end = start + (now + rng.normal(0, 60, n) if bug else before)
    return pd.DataFrame(dict(persons=persons, area_m2=area.round(0), year_built=built, heat_pump=pump, solar_kwp=solar,
                             reading_a=start.round(0), reading_b=end.round(0), use_kwh=now.round(0)))


for name in ("bug", "ok"):
    rng = np.random.default_rng(8)
    out = HERE / name
    out.mkdir(exist_ok=True)
    houses(3000, rng, name == "bug").to_csv(out / "households_train.csv", index=False)
    houses(1000, rng, name == "bug").to_csv(out / "households_val.csv", index=False)
