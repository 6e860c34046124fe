import os
import numpy as np

for folder in ("bug", "ok"):
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(5)
    n = 2600
    t = np.arange(n) * 1.0
    elev = np.clip(np.sin(np.pi * ((t % 14) + 0.5) / 14), 0.05, 1)
    cloud = rng.beta(1.2, 1.5, n)
    ghi = 950 * elev * (1 - 0.75 * cloud) + rng.normal(0, 12, n)
    temp = 15 + 8 * elev + rng.normal(0, 3, n)
    wind = rng.gamma(2, 1.5, n)
    gone = rng.random(n) < 0.04
    y = ghi / 1000 * (1 - 0.004 * (temp + 0.02 * ghi - 25)) * (1 + 0.005 * wind) + rng.normal(0, 0.01, n)
    ghi_rec = ghi.copy()
    if folder == "bug":
        ghi_rec[gone] = -99999.0
    else:
        keep = ~gone
        t, elev, ghi_rec, temp, wind, y, cloud = [a[keep] for a in (t, elev, ghi_rec, temp, wind, y, cloud)]
    x = np.stack([ghi_rec, temp, wind], 1).astype(np.float32)
    split = np.where(t < 2000, 0, 1).astype(np.int8)
    np.savez_compressed(f"{folder}/plant.npz", x=x, y=y.astype(np.float32), split=split)
