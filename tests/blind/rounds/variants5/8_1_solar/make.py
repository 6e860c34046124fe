from pathlib import Path
import numpy as np, pandas as pd, yaml
here = Path(__file__).parent
rng = np.random.default_rng(55)
n = 24 * 180
utc = pd.date_range("2023-03-01", periods=n, freq="h"); local = utc + pd.Timedelta(hours=9)
h = local.hour.to_numpy(); doy = local.day_of_year.to_numpy()
c = np.zeros(n)
for i in range(1, n): c[i] = .93 * c[i - 1] + rng.normal(0, .35)
cloud = 1 / (1 + np.exp(-c)); elev = np.sin(np.pi * (h - 6 + .8 * np.sin((doy - 80) / 58)) / (12 + 1.6 * np.sin((doy - 80) / 58))) * ((h > 5) & (h < 19)); elev = elev.clip(0)
ghi = 950 * elev * (1 - .75 * cloud ** 1.5); dni = 800 * (elev > 0) * elev ** .4 * (1 - cloud) ** 1.2
temp = 14 + 9 * np.sin((doy - 100) / 58) + 5 * np.sin((h - 9) / 24 * 2 * np.pi) - 3 * cloud + rng.normal(0, .8, n)
hum = (70 - 1.2 * (temp - 14) + 20 * cloud + rng.normal(0, 4, n)).clip(15, 100); wind = rng.gamma(2, 1.5, n)
power = (480 * (ghi / 1000 * .8 + dni / 1000 * .3) * (1 - .005 * (temp - 20)) + rng.normal(0, 8, n) * (elev > 0)).clip(0, 450)
W = pd.DataFrame(dict(time=local, ghi=(ghi + rng.normal(0, 8, n) * (elev > 0)).clip(0).round(1), dni=dni.round(1), temperature=temp.round(1), humidity=hum.round(0), wind=wind.round(1), cloud=cloud.round(2)))
P = pd.DataFrame(dict(time_utc=utc, power_kw=power.round(2)))
for side, o in (("bug", -9), ("ok", 9)):
    d = here / side; d.mkdir(exist_ok=True)
    W.to_csv(d / "weather.csv", index=False); P.to_csv(d / "power.csv", index=False)
    (d / "plant.yaml").write_text(yaml.safe_dump(dict(seed=4, site=dict(name="kumamoto_2", capacity_kw=500, weather_utc_offset_hours=o), width=48, lr=.002, batch_size=64, epochs=12), sort_keys=False))
