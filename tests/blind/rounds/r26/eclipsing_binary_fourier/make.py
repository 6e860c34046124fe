"""Writes bug/ and ok/: photometry of short period eclipsing binaries from an amateur network."""
import json
import os

import numpy as np

STARS, PER_STAR = 10, 320


def survey(seed):
    rng = np.random.default_rng(seed)
    catalog, cols = [], []
    for s in range(STARS):
        period, epoch = rng.uniform(0.27, 0.85), 2459000.5 + rng.uniform(0, 1)
        depth1, depth2, width = rng.uniform(0.5, 0.9), rng.uniform(0.2, 0.45), rng.uniform(0.035, 0.06)
        ellip, base = rng.uniform(0.05, 0.15), rng.uniform(9.5, 12.5)
        night = rng.integers(0, 500, PER_STAR)
        jd = 2459000.5 + night + rng.uniform(0.33, 0.72, PER_STAR)
        phase = ((jd - epoch) / period) % 1.0
        d1 = np.minimum(phase, 1 - phase)
        d2 = np.abs(phase - 0.5)
        airmass = 1 + rng.gamma(1.5, 0.25, PER_STAR)
        seeing = rng.gamma(6.0, 0.5, PER_STAR)
        mag = (base + depth1 * np.exp(-(d1 / width) ** 2) + depth2 * np.exp(-(d2 / width) ** 2)
               + ellip * np.cos(4 * np.pi * phase) + 0.08 * (airmass - 1) + rng.normal(0, 0.012, PER_STAR))
        catalog.append({"star": f"V{1200 + 7 * s}", "period_d": round(period, 7), "epoch_jd": round(epoch, 5)})
        cols.append(np.column_stack([np.full(PER_STAR, s), jd, airmass, seeing, mag]))
    table = np.concatenate(cols)
    return catalog, table[np.argsort(table[:, 1])]


def write(folder, dtype, seed=61):
    os.makedirs(folder, exist_ok=True)
    catalog, table = survey(seed)
    packed = {name: table[:, i].astype(dtype) for i, name in enumerate(["star", "jd", "airmass", "seeing_px", "mag_v"])}
    packed["star"] = packed["star"].astype(np.int16)
    np.savez_compressed(os.path.join(folder, "photometry.npz"), **packed)
    with open(os.path.join(folder, "catalog.json"), "w") as f:
        json.dump(catalog, f, indent=1)


if __name__ == "__main__":
    write("ok", np.float64)
    write("bug", np.float32)
