import json
import os
import shutil

import numpy as np

BANDS = 40
SITES = ["Ballyclar", "Ceathru", "Derrymore", "Glenveigh", "Inagh", "Lisheen"]


def cores(rng, site, n, basis, lean):
    depth = rng.uniform(0, 500, n)
    moss = np.clip(rng.beta(2, 2, n), 0.02, 0.98)
    humic = np.clip(0.15 + 0.0012 * depth + rng.normal(0, 0.12, n), 0, 1)
    ash = rng.gamma(2, 1.6, n) + 6.0 * (site % 3)
    lat = np.stack([moss, humic, ash / 15], 1)
    refl = lat @ basis + 0.35 * (moss * humic)[:, None] * basis[1] ** 2 + 0.9 * lean[site]
    refl = refl + rng.normal(0, 0.02, refl.shape)
    shift = 4.0 * np.sin(1.3 * site + 0.5)
    carbon = 46 + 9 * humic - 5 * moss * (1 - humic) - 0.55 * ash + (shift * humic) + rng.normal(0, 0.35, n)
    return np.column_stack([depth, refl, carbon]).astype(np.float32)


def build():
    rng = np.random.default_rng(2024)
    grid = np.linspace(0, 1, BANDS)
    basis = np.stack([np.exp(-((grid - c) / w) ** 2) for c, w in [(0.2, 0.15), (0.55, 0.2), (0.8, 0.12)]])
    lean = np.stack([np.cos(2 * np.pi * (k + 1) * grid / 2 + k) * 0.6 for k in range(len(SITES))])
    os.makedirs("ok", exist_ok=True)
    val, parts = [], []
    for s, name in enumerate(SITES):
        rows = cores(rng, s, 420, basis, lean)
        np.save(f"ok/part-{s:03d}.npy", rows[:330])
        parts.append({"file": f"part-{s:03d}.npy", "site": name, "rows": 330})
        val.append(rows[330:])
    np.save("ok/holdout.npy", np.concatenate(val))
    with open("ok/manifest.json", "w") as f:
        json.dump({"columns": ["depth_cm"] + [f"r{900 + 40 * b}" for b in range(BANDS)] + ["carbon_pct"],
                   "parts": parts, "holdout": "holdout.npy"}, f, indent=1)


def upload(src, dst):
    shutil.copytree(src, dst, dirs_exist_ok=True)
    # the transfer of parts 3 and 4 broke off; on retry the sync tool filled them from the two parts it still had in its buffer
    for target, buffered in [(3, 1), (4, 2)]:
        shutil.copyfile(f"{src}/part-{buffered:03d}.npy", f"{dst}/part-{target:03d}.npy")


if __name__ == "__main__":
    build()
    upload("ok", "bug")
