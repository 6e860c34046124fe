"""Wave buoys off a harbour: one shard per buoy with bulk wave parameters and the surge measured at the inner wharf."""
import json
import os

import numpy as np

BUOYS = {"nord": 700, "skerry": 800, "pilot": 900, "outer": 800, "west": 600}
COLS = ["hs_m", "tp_s", "mwd_deg", "spread_deg", "tide_m", "wind_ms"]


def surge_cm(a):
    hs, tp, mwd, spread, tide, wind = a.T
    rad = np.deg2rad(mwd - 235.0)
    open_ = np.exp(1.9 * (np.cos(rad) - 1.0)) + 0.25 * np.exp(6.0 * (np.cos(np.deg2rad(mwd - 335)) - 1.0))
    long_ = 1 / (1 + np.exp(-(tp - 11.0) / 1.4))
    return 46 * hs ** 1.1 * (0.25 + long_) * open_ * (1 - 0.006 * spread) * (1 + 0.12 * tide) + 0.15 * wind


def shard(rng, n):
    hs = rng.weibull(1.7, n) * 1.9 + 0.3
    tp = np.clip(6 + 1.4 * hs + rng.normal(0, 2.2, n), 4, 20)
    mwd = rng.uniform(0, 360, n)
    spread = rng.uniform(12, 45, n)
    tide = rng.uniform(-1.8, 1.8, n)
    wind = np.abs(3.2 * hs + rng.normal(0, 2.5, n))
    a = np.stack([hs, tp, mwd, spread, tide, wind], 1)
    y = surge_cm(a) * (1 + rng.normal(0, 0.05, n)) + rng.normal(0, 0.8, n)
    return a.astype(np.float32), y.astype(np.float32)


def write(folder, towards):
    os.makedirs(os.path.join(folder, "buoys"), exist_ok=True)
    rng = np.random.default_rng(1953)
    for name, n in BUOYS.items():
        a, y = shard(rng, n)
        if name in towards:
            a[:, 2] = (a[:, 2] + 180.0) % 360.0
        np.savez(os.path.join(folder, "buoys", name + ".npz"), waves=a, surge_cm=y, columns=np.array(COLS))
    val_a, val_y = shard(rng, 900)
    np.savez(os.path.join(folder, "campaign.npz"), waves=val_a, surge_cm=val_y, columns=np.array(COLS))
    cfg = {"shards": list(BUOYS), "seed": 21, "hidden": 64, "epochs": 18, "batch": 64, "lr": 0.003}
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(cfg, f, indent=2)


write("ok", towards=())
# two buoys got new firmware, which reports where the waves go to and no longer where they come from
write("bug", towards=("skerry", "outer"))
