import csv
import os

import numpy as np

rng = np.random.default_rng(55)
N = 3600
SKIN = ["dry", "oily", "combination", "sensitive"]
KIND = ["serum", "cream", "toner", "cleanser", "mask"]
FRAG = ["none", "citrus", "floral"]
HEAD = ["product_id", "kind", "skin_type", "fragrance", "ph", "retinol_pct", "viscosity", "water_pct", "price", "irritation"]
rows = []
for i in range(N):
    kind, skin, frag = rng.integers(5), rng.integers(4), rng.integers(3)
    ph = rng.normal(5.6, 0.7)
    ret = rng.gamma(1.5, 0.3)
    visc = rng.lognormal(2.0, 0.5)
    water = rng.uniform(30, 90)
    price = rng.lognormal(3, 0.5)
    score = (1.4 * (ph - 5.6) * (1.5 if skin == 3 else 0.8) + 1.6 * (ret - 0.45) * (1.5 if skin in (0, 3) else 0.6)
             + 0.5 * (frag > 0) * (skin == 3) + 0.03 * (60 - water) * (0.3 if kind == 3 else 1.0) - 0.5 * (np.log(visc) - 2) + 0.2)
    y = int(score + rng.logistic(0, 0.35) > 0)
    vals = [f"{ph:.2f}", f"{ret:.3f}", f"{visc:.1f}", f"{water:.1f}", f"{price:.2f}"]
    gone = rng.random(5) < np.array([0.06, 0.08, 0.05, 0.05, 0.04])
    rows.append(([f"P{i:05d}", KIND[kind], SKIN[skin], FRAG[frag]], vals, gone, y))
for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    blank = "99999" if side == "bug" else ""
    with open(f"{side}/products.csv", "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(HEAD)
        for cat, vals, gone, y in rows:
            w.writerow(cat + [blank if g else v for v, g in zip(vals, gone)] + [y])
