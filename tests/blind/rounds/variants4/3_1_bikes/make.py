from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent


def rides(n, rng, start):
    hour = rng.integers(0, 24, n)
    when = pd.Timestamp(start) + pd.to_timedelta(rng.integers(0, 365, n), unit="D")
    wd = when.day_of_week.to_numpy()
    st = rng.integers(0, 12, n)
    temp = 12 + 9 * np.sin((when.day_of_year.to_numpy() - 110) / 58.0) + rng.normal(0, 3, n)
    wind, hum = rng.gamma(3, 1.2, n), rng.beta(5, 3, n) * 100
    rain = np.where(rng.random(n) < 0.2, rng.exponential(2, n), 0)
    work = np.exp(-((hour - 8) / 1.6) ** 2) + np.exp(-((hour - 17.5) / 2.0) ** 2)
    free = np.exp(-((hour - 14) / 4.0) ** 2)
    day = np.where(wd < 5, 1.9 * work, 1.6 * free) - 0.3 * (wd == 0) + 0.3 * (wd == 4)
    z = 2.0 + 0.08 * (st - 5) + day + 0.03 * (temp - 12) - 0.05 * wind - 0.12 * rain
    return when, wd, pd.DataFrame(dict(hour=hour, weekday=wd, station=st, temp_c=temp.round(1), wind_ms=wind.round(1), humidity=hum.round(0),
                                   rain_mm=rain.round(1), rides=rng.poisson(np.exp(z))))


for name in ("bug", "ok"):
    rng = np.random.default_rng(60)
    out = HERE / name
    out.mkdir(exist_ok=True)
    for year, n in ((2022, 8000), (2023, 2500)):
        when, wd, df = rides(n, rng, f"{year}-01-01")
        if name == "bug" and year == 2023:
            df["weekday"] = (wd + 1) % 7
        df.insert(0, "date", when.strftime("%Y-%m-%d"))
        df.to_csv(out / f"rides_{year}.csv", index=False)
