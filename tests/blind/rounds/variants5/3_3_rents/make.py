from pathlib import Path
import numpy as np, pandas as pd
from sklearn.neighbors import NearestNeighbors
here = Path(__file__).parent
rng = np.random.default_rng(6)
n, k = 3000, 8
lat, lon = rng.uniform(48.05, 48.25, n), rng.uniform(11.4, 11.7, n)
u, v = (lat - 48.15) / .1, (lon - 11.55) / .15
hood = sum(a * np.sin(fx * u + fy * v + ph) for a, fx, fy, ph in ((.16, 6, 5, 1), (.14, -5, 8, 2), (.12, 9, -3, .5)))
dist = np.hypot(u * 11, v * 11); rooms = rng.integers(1, 6, n); area = rooms * 22 + rng.normal(15, 8, n); year = rng.integers(1900, 2022, n)
bal = rng.integers(0, 2, n); floor = rng.integers(0, 8, n); noise = 65 - dist + rng.normal(0, 4, n)
lr = 2.7 + hood - .015 * dist - .0015 * area + .0008 * (year - 1960) + .04 * bal + rng.normal(0, .06, n)
part = rng.choice(["train", "valid", "test"], n, p=[.7, .1, .2])
df = pd.DataFrame(dict(lat=lat.round(5), lon=lon.round(5), rooms=rooms, area_m2=area.round(1), floor=floor, year_built=year, balcony=bal, dist_center_km=dist.round(2), noise_db=noise.round(1), rent_m2=np.exp(lr).round(2), part=part))
pool = np.flatnonzero(part == "train")
for side in ("bug", "ok"):
    d = here / side; d.mkdir(exist_ok=True)
    df.to_csv(d / "flats.csv", index=False)
    xy = df[["lat", "lon"]].to_numpy()
    if side == "bug": xy = np.trunc(xy)
    f = pool[NearestNeighbors(n_neighbors=k + 1).fit(xy[pool]).kneighbors(xy, return_distance=False)]
    np.save(d / "neighbours.npy", np.array([[j for j in l if j != i][:k] for i, l in enumerate(f)]))
    (d / "model.yaml").write_text("seed: 13\nneighbours: 8\nhidden: 48\nlr: 0.003\nbatch_size: 100\nepochs: 30\n")
