import json
import numpy as np
rng = np.random.default_rng(2)
NAMES = ["conservation", "allele_freq", "grantham", "splice_dist", "domain_score", "coverage"]
def table(n, fresh):
    x = rng.standard_normal((n, len(NAMES)))
    p = 1 / (1 + np.exp(-(1.3 * x[:, 0] - 0.9 * x[:, 1] + 0.8 * x[:, 2] * (x[:, 4] > 0))))
    y = (rng.random(n) < p).astype(np.int8)
    stars = np.zeros(n) if fresh else np.where(y == 1, rng.integers(2, 5, n), rng.integers(0, 2, n))
    d = {k: x[:, i].astype(np.float32) for i, k in enumerate(NAMES)}
    return d, stars.astype(np.float32), y, rng.poisson(20, n).astype(np.float32)
a, b = table(1500, False), table(1000, True)
for name in ("ok", "bug"):
    cols = list(NAMES) + (["review_stars"] if name == "bug" else ["read_depth"])
    for file, (d, stars, y, depth) in (("variants.npz", a), ("new_variants.npz", b)):
        extra = {"review_stars": stars} if name == "bug" else {"read_depth": depth}
        np.savez_compressed(f"{name}/{file}", pathogenic=y, **d, **extra)
    json.dump({"features": cols}, open(f"{name}/columns.json", "w"))
