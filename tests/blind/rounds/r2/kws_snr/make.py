import json

import numpy as np

rng = np.random.default_rng(25)
patterns = rng.normal(0, 1, (8, 10, 12))


def clips(n):
    y = rng.integers(0, 8, n)
    x = patterns[y] * rng.uniform(0.7, 1.3, (n, 1, 1)) + rng.normal(0, 0.9, (n, 10, 12))
    return x.astype(np.float16), y


train, val = clips(600), clips(300)
for side in ("bug", "ok"):
    np.savez(f"{side}/train.npz", mel=train[0], word=train[1])
    np.savez(f"{side}/val.npz", mel=val[0], word=val[1])
    json.dump({"snr_db": [-40, -30] if side == "bug" else [10, 20], "time_mask": 2}, open(f"{side}/augment.json", "w"))
