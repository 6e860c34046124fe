import csv
import json
from pathlib import Path

import numpy as np

rng = np.random.default_rng(8)
N, K, WORDS = 1200, 5, 150
topic = rng.integers(0, K, N)
prefer = rng.dirichlet(np.full(WORDS, 0.6), K)
prefer = 0.4 * prefer + 0.6 / WORDS
x = np.stack([rng.multinomial(18, prefer[t]) for t in topic]).clip(0, 1).astype(np.uint8)
groups = [np.flatnonzero(topic[:-1] == k) for k in range(K)]
edges = set()
for i in range(N - 1):
    for _ in range(3):
        pool = groups[topic[i]] if rng.random() < 0.85 else np.arange(N - 1)
        j = int(rng.choice(pool))
        if j != i:
            edges.add((i, j))
edges = sorted(edges)
config = dict(seed=4, hidden=32, dropout=0.5, lr=0.01, weight_decay=5e-4, epochs=150, train_fraction=0.5)

for side, base in (("ok", 0), ("bug", 1)):
    out = Path(side)
    out.mkdir(exist_ok=True)
    np.save(out / "features.npy", x)
    np.save(out / "topics.npy", topic.astype(np.int64))
    (out / "config.json").write_text(json.dumps(config, indent=1))
    with open(out / "citations.csv", "w", newline="") as fh:
        w = csv.writer(fh)
        w.writerow(["citing", "cited"])
        w.writerows([(a + base, b + base) for a, b in edges])
