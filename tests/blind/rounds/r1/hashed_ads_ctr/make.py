import json
import numpy as np

rng = np.random.default_rng(71)
U, A = 300, 80
user_rate, ad_rate = rng.normal(0, 1.1, U), rng.normal(0, 1.1, A)
hour_rate = 0.3 * np.sin(np.arange(24) / 24 * 6.28)
parts = {}
for part, n in (("train", 9000), ("val", 2500)):
    u, a, h = rng.integers(0, U, n), rng.integers(0, A, n), rng.integers(0, 24, n)
    z = -1.2 + user_rate[u] + ad_rate[a] + hour_rate[h]
    parts[part] = np.stack([u + 10000, a + 500, h, rng.random(n) < 1 / (1 + np.exp(-z))], 1).astype(int)
for name, size in (("bug", 12), ("ok", 16384)):
    for part, table in parts.items():
        np.savetxt(f"{name}/{part}.csv", table, fmt="%d", delimiter=",", header="user,ad,hour,click", comments="")
    json.dump(dict(seed=2, hash_buckets=size, dim=4, lr=0.006, weight_decay=0.02, epochs=6, batch_size=256), open(f"{name}/config.json", "w"), indent=1)
