import csv
from pathlib import Path
import numpy as np

HERE = Path(__file__).resolve().parent
PRODUCTS = ["roll", "rye", "croissant", "pretzel", "baguette", "bun", "spelt", "toast", "danish", "brioche",
            "focaccia", "bagel", "muffin", "strudel", "scone", "donut"]


def encode(names, side, part):
    if side == "bug":
        seen = {}
        return [seen.setdefault(n, len(seen)) for n in names]
    order = {n: i for i, n in enumerate(sorted(PRODUCTS))}
    return [order[n] for n in names]


for side in ("bug", "ok"):
    rng = np.random.default_rng(3)
    out = HERE / side
    out.mkdir(exist_ok=True)
    level = rng.uniform(1.0, 5.0, len(PRODUCTS))
    weekend = rng.normal(0, 0.5, len(PRODUCTS))
    for part, n in (("history", 1600), ("next_month", 500)):
        p = rng.integers(0, len(PRODUCTS), n)
        day = rng.integers(0, 7, n)
        promo = rng.random(n) < 0.2
        rain = rng.gamma(1, 2, n)
        log_sales = level[p] + weekend[p] * (day >= 5) + 0.5 * promo - 0.04 * rain + rng.normal(0, 0.15, n)
        codes = encode([PRODUCTS[i] for i in p], side, part)
        with open(out / f"{part}.csv", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["product", "weekday", "promo", "rain", "log_sales"])
            for row in zip(codes, day, promo.astype(int), rain.round(2), log_sales.round(3)):
                w.writerow(row)
