from pathlib import Path
import numpy as np, pandas as pd
here = Path(__file__).parent
rng = np.random.default_rng(88)
day = pd.date_range("2018-01-01", "2023-12-31").repeat(3); n = len(day)
shift = np.tile([0, 1, 2], n // 3); doy = day.day_of_year.to_numpy(); dow = day.day_of_week.to_numpy()
rain = np.where(rng.random(n) < .35, rng.exponential(4, n), 0); wind = rng.gamma(4, 4, n)
lam = np.exp(5.2 - .9 * np.cos((doy - 20) / 365.25 * 2 * np.pi) + .2 * np.sin((doy - 40) / 365.25 * 4 * np.pi) + np.array([.3, 0, .1])[shift]
             + np.where(dow >= 5, np.array([-.7, .35, .2])[shift], 0) - .12 * np.log1p(rain) * 2 - .008 * wind + .08 * rng.normal(size=n))
df = pd.DataFrame(dict(day=day, shift=shift, rain_mm=rain.round(1), wind_kmh=wind.round(1), rentals=rng.poisson(lam)))
for side in ("bug", "ok"):
    f = df.copy(); s = f["day"].dt
    if side == "bug": f["day"] = [f"{y}-{dd:02d}-{m:02d}" if dd <= 12 else f"{y}-{m:02d}-{dd:02d}" for y, m, dd in zip(s.year, s.month, s.day)]
    else: f["day"] = s.strftime("%Y-%m-%d")
    d = here / side; d.mkdir(exist_ok=True); f.to_csv(d / "rentals.csv", index=False)
