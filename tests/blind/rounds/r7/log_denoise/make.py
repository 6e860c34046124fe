import json, os
import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
S, T = 5, 40
mix = np.random.default_rng(3).gamma(0.8, 4.0, (S, T))


def counts(n, seed, incident=False):
    r = np.random.default_rng(seed)
    rate = r.gamma(2.0, 1.5, (n, S)) @ mix + 0.5
    if incident:
        for row in rate:
            cols = r.choice(T, 14, replace=False)
            row[cols] = row[r.permutation(cols)]
    return np.minimum(r.poisson(rate), 255).astype(np.uint8)


for name in ("bug", "ok"):
    os.makedirs(f"{here}/{name}", exist_ok=True)
    np.save(f"{here}/{name}/normal.npy", counts(2000, 1))
    np.save(f"{here}/{name}/normal_heldout.npy", counts(500, 2))
    np.save(f"{here}/{name}/incidents.npy", counts(200, 3, True))
    cfg = {"hidden": 64, "code": 6, "lr": 2e-3, "batch_size": 50, "epochs": 21, "seed": 1,
           "noise_std": 25.0 if name == "bug" else 0.2}
    with open(f"{here}/{name}/config.json", "w") as f:
        json.dump(cfg, f, indent=2)
