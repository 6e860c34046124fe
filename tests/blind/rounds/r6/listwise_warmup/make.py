import json
import os
import numpy as np
rng = np.random.default_rng(70)
Q, DOCS, D = 260, 12, 10
x = rng.standard_normal((Q, DOCS, D))
w = rng.standard_normal(D) * 0.6
util = x @ w + 0.9 * np.tanh(x[..., 0] * x[..., 1]) + 0.7 * np.abs(x[..., 2]) + 0.5 * rng.standard_normal((Q, DOCS))
rel = np.digitize(util, np.quantile(util, [0.5, 0.75, 0.92]))
for d, warm in (("ok", 40), ("bug", 20000)):
    os.makedirs(d, exist_ok=True)
    np.savez_compressed(f"{d}/queries.npz", x=np.round(x, 2).astype(np.float16), rel=rel.astype(np.int8))
    json.dump({"seed": 2, "optimizer": {"lr": 0.004, "weight_decay": 0.01, "warmup_steps": warm},
               "train": {"epochs": 18, "queries_per_batch": 8}, "model": {"hidden": 48}, "eval": {"k": 5}},
              open(f"{d}/ranker.json", "w"), indent=2)
