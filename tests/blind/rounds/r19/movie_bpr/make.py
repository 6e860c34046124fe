import csv
import json
import os

import numpy as np

rng = np.random.default_rng(6)
U, I, K = 600, 400, 6
pop = 1.0 / (np.arange(I) + 12) ** 0.7
pop = pop[rng.permutation(I)]
ut = rng.dirichlet(np.full(K, .25), U)
it = rng.integers(0, K, I)
train, valid = [], []
for u in range(U):
    p = pop * (ut[u][it] + .01)
    k = int(rng.integers(14, 30))
    items = rng.choice(I, k, replace=False, p=p / p.sum())
    train += [(u, int(i)) for i in items[:-2]]
    valid += [(u, int(i)) for i in items[-2:]]
train = [train[i] for i in rng.permutation(len(train))]
base = {"dim": 12, "epochs": 12, "batch_size": 128, "lr": 0.01, "weight_decay": 0.2, "num_negatives": 4, "seed": 3}
for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    for name, rows in (("train", train), ("valid", valid)):
        with open(f"{side}/{name}.csv", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["user", "item"])
            w.writerows(rows)
    json.dump({**base, "negative_sampler": {"kind": "popularity", "power": 7.5 if side == "bug" else 0.75}},
              open(f"{side}/config.json", "w"), indent=2)
