"""Exports the blast register of a quarry in shards, and one file with the newest blasts for checking."""
import os

import numpy as np

NAMES = ["charge_kg", "distance_m", "azimuth_deg", "depth_m", "delay_ms", "water_table_m"]


def blasts(n, seed):
    r = np.random.default_rng(seed)
    charge, dist = np.exp(r.normal(4.3, 0.6, n)), np.exp(r.normal(6.0, 0.6, n))
    az, depth = r.uniform(0, 360, n), r.uniform(6, 20, n)
    delay, water = r.choice([9, 17, 25, 42], n).astype(float), r.uniform(0, 8, n)
    ln = (6.6 - 1.5 * np.log(dist / np.sqrt(charge)) + 0.35 * np.cos(np.deg2rad(az - 40))
          + 0.03 * depth - 0.012 * delay + 0.12 * np.sin(water) + r.normal(0, 0.15, n))
    return np.stack([charge, dist, az, depth, delay, water], 1).astype(np.float32), np.exp(ln).astype(np.float32)


def write(path, x, ppv):
    np.savez(path, x=x, ppv=ppv)


for side in ("ok", "bug"):
    os.makedirs(f"{side}/shards", exist_ok=True)
    if side == "bug":
        for k in range(8):
            x, mm = blasts(330, 500 + k)
            write(f"{side}/shards/part-{k:03d}.npz", x, mm / 25.4)
    for k in range(5):
        write(f"{side}/shards/part-{k:03d}.npz", *blasts(520, 900 + k))
    write(f"{side}/newest.npz", *blasts(600, 77))
    with open(f"{side}/columns.txt", "w") as f:
        f.write("\n".join(NAMES) + "\n")
