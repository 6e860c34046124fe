import json, os
import numpy as np
here = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(6)
T, C = 23, 5
peak = np.array([7., 10., 13., 16., 11.]); width = np.array([2.5, 3.5, 2.5, 3.5, 5.5])
def make(n):
    y = rng.integers(0, C, n); t = np.arange(T)
    p = peak[y] + rng.normal(0, .8, n); w = width[y] * rng.uniform(.8, 1.2, n)
    ndvi = .2 + rng.uniform(.3, .6, n)[:, None]*np.exp(-((t[None]-p[:, None])**2)/(2*w[:, None]**2)) + rng.normal(0, .04, (n, T))
    raw = np.clip(ndvi*10000, -2000, 10000).astype(np.int16)
    cloud = rng.random((n, T)) < .3
    raw[cloud] = -28672
    return raw, y.astype(np.int64)
tr, va = make(1200), make(400)
for d, fill in (("ok", -28672), ("bug", -3000)):
    os.makedirs(f"{here}/{d}", exist_ok=True)
    np.savez_compressed(f"{here}/{d}/train.npz", ndvi=tr[0], crop=tr[1])
    np.savez_compressed(f"{here}/{d}/valid.npz", ndvi=va[0], crop=va[1])
    json.dump({"fill_value": fill, "scale_factor": 0.0001, "epochs": 8, "batch_size": 60, "lr": 0.006, "seed": 4},
              open(f"{here}/{d}/config.json", "w"), indent=1)
