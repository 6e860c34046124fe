import os

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def features(t):
    start = np.log1p(t["start_price"])
    return np.stack([start, t["bidders"], t["photos"], t["hours"] / 24, t["seller_score"], t["new"],
                     start * t["new"]], 1).astype(np.float16)


rng = np.random.default_rng(66)
n = 3200
t = {"lot": rng.permutation(n) + 10000, "start_price": np.round(np.exp(rng.normal(2.5, 0.9, n)), 2),
     "bidders": rng.poisson(5, n), "photos": rng.integers(1, 12, n), "hours": rng.choice([24, 72, 120, 168], n),
     "seller_score": np.round(rng.beta(8, 2, n), 2), "new": (rng.random(n) < 0.35).astype(int)}
logp = (np.log1p(t["start_price"]) * 0.6 + 0.9 + 0.15 * np.sqrt(t["bidders"]) * (1 + t["seller_score"]) + 0.03 * t["photos"]
        + 0.5 * t["new"] + 0.002 * t["hours"] + 0.15 * rng.normal(0, 1, n))
t["hammer_price"] = np.round(np.exp(logp), 2)
listed = {k: v.copy() for k, v in t.items()}
by_lot = np.argsort(t["lot"])
t = {k: v[by_lot] for k, v in t.items()}
for folder in ("bug", "ok"):
    d = os.path.join(HERE, folder)
    os.makedirs(os.path.join(d, "cache"), exist_ok=True)
    with open(os.path.join(d, "auctions.csv"), "w") as fh:
        fh.write(",".join(t) + "\n")
        for row in zip(*t.values()):
            fh.write(",".join(f"{v:g}" for v in row) + "\n")
    np.savez_compressed(os.path.join(d, "cache", "features.npz"), x=features(listed if folder == "bug" else t))
