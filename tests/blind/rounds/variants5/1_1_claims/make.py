from pathlib import Path
import numpy as np, pandas as pd
here = Path(__file__).parent
rng = np.random.default_rng(3)
n = 5000
age = rng.uniform(18, 80, n); vage = rng.gamma(2, 3, n); hp = rng.normal(110, 30, n).clip(45)
value = (hp * 220 * np.exp(-0.08 * vage) * rng.lognormal(0, .15, n))
bm = (130 - age + rng.normal(0, 12, n)).clip(50, 150); dens = rng.lognormal(5, 1.2, n); km = rng.normal(13000, 4000, n).clip(1000)
region = rng.choice(["north", "south", "coast", "metro"], n, p=[.3, .3, .2, .2]); fuel = rng.choice(["petrol", "diesel", "electric"], n)
z = (0.6 * np.log(value / 10000) + 0.5 * np.sin(age / 9) + 0.012 * (bm - 80) + 0.25 * (region == "metro") - .3 * (region == "coast")
     + .4 * (fuel == "electric") * (hp > 110) + 0.00005 * (km - 13000) + 0.12 * np.log(dens))
cost = np.exp(6.5 + z + rng.normal(0, .35, n))
df = pd.DataFrame(dict(driver_age=age.round(0), vehicle_age=vage.round(1), vehicle_value=value.round(0), horsepower=hp.round(0), bonus_malus=bm.round(0),
                       density=dens.round(1), annual_km=km.round(0), region=region, fuel=fuel, claim_cost=cost.round(2)))
for side, wd in (("bug", "0.3"), ("ok", "1.0e-4")):
    d = here / side; d.mkdir(exist_ok=True)
    df.to_csv(d / "claims.csv", index=False)
    (d / "config.yaml").write_text(f"""seed: 11
model:
  hidden: [64, 64]
  dropout: 0.05
train:
  lr: 2.0e-3
  weight_decay: {wd}
  batch_size: 128
  epochs: 25
""")
