import json
import os

import numpy as np


def showers(n, seed):
    rng = np.random.default_rng(seed)
    kind = rng.random(n) < .45
    e = rng.gamma(4, 1.5, n)
    depth = np.where(kind, 2.5 + .8 * np.log(e), 5 + 1.2 * np.log(e)) + rng.normal(0, .25, n)
    width = np.where(kind, .6, 1.4) + .05 * depth + rng.normal(0, .08, n)
    frac = 1 / (1 + np.exp(-(np.where(kind, 2, -1) + rng.normal(0, .5, n))))
    th = rng.uniform(0, 2 * np.pi, n)
    r = 1.0 + rng.normal(0, .08, n)
    return np.column_stack([e, depth, width, frac, r * np.cos(th), r * np.sin(th)]).astype(np.float32)


train, held = showers(6000, 1), showers(2000, 2)
mine = {"mean": train.mean(0).tolist(), "std": train.std(0).tolist()}
other = {"mean": [48.0, 14.0, 9.5, 3.1, 0.4, -0.2], "std": [61.0, 22.0, 11.0, 4.2, 12.5, 12.8]}
for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    np.savez_compressed(f"{side}/showers.npz", train=train, heldout=held)
    json.dump(other if side == "bug" else mine, open(f"{side}/stats.json", "w"), indent=1)
