"""Growth of oysters in bags over one tide cycle, with the water measured by the loggers of the farms."""
import json
import os

import numpy as np

rng = np.random.default_rng(77)
FIELDS = ["water_temp", "salinity_psu", "chlorophyll_ug_l", "current_cm_s", "bag_density", "shell_mm",
          "air_exposure_pct", "turbidity_ntu"]


def farm(n, site_temp):
    temp = rng.normal(site_temp, 3.2, n).clip(5, 26)
    sal = rng.normal(28, 3.5, n).clip(12, 35)
    chl = rng.gamma(3.0, 1.4, n)
    cur = rng.gamma(4.0, 7.0, n)
    dens = rng.integers(60, 260, n).astype(float)
    shell = rng.uniform(18, 85, n)
    air = rng.uniform(0, 45, n)
    turb = rng.gamma(2.0, 6.0, n)
    heat = np.exp(-((temp - 18.0) / 6.0) ** 2)
    food = chl / (chl + 3.0) * (1 - np.exp(-cur / 20.0))
    growth = (9.0 * heat * food * (1 - 0.35 * (dens - 60) / 200) * (1.25 - shell / 140)
              * (1 - 0.006 * air) * np.exp(-0.5 * ((sal - 30) / 8) ** 2) - 0.01 * turb)
    growth = growth + rng.normal(0, 0.12, n)
    x = np.stack([temp, sal, chl, cur, dens, shell, air, turb], 1)
    return x.round(2), growth.round(3)


def dump(path, x, y):
    with open(path, "w") as fh:
        for row, g in zip(x, y):
            rec = {k: round(float(v), 2) for k, v in zip(FIELDS, row)}
            rec["growth_mm"] = float(g)
            fh.write(json.dumps(rec) + "\n")


def main():
    parts = [farm(650, t) for t in (13.5, 15.0, 16.5, 14.5)]
    x = np.concatenate([p[0] for p in parts])
    y = np.concatenate([p[1] for p in parts])
    xv, yv = farm(700, 15.2)
    for folder in ("ok", "bug"):
        os.makedirs(folder, exist_ok=True)
        dump(os.path.join(folder, "train.jsonl"), x, y)
        out = xv.copy()
        if folder == "bug":
            out[:, 0] = out[:, 0] * 9 / 5 + 32
        dump(os.path.join(folder, "val.jsonl"), out, yv)


if __name__ == "__main__":
    main()
