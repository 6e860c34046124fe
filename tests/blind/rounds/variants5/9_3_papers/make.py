from pathlib import Path
import json, numpy as np, pandas as pd
here = Path(__file__).parent
rng = np.random.default_rng(64)
n, K, V = 1500, 6, 200
y = rng.integers(0, K, n)
prob = np.full((K, V), .03)
for k in range(K): prob[k, rng.choice(V, 40, replace=False)] = .055
words = (rng.random((n, V)) < prob[y]).astype("u1")
by = [np.flatnonzero(y[:n - 1] == k) for k in range(K)]
e = []
for i in range(n - 1):
    for _ in range(rng.integers(2, 5)):
        j = rng.choice(by[y[i]]) if rng.random() < .8 else rng.integers(0, n - 1)
        if j != i: e.append((i, j))
e = np.array(e); r = rng.permutation(n)
for side in ("bug", "ok"):
    d = here / side; d.mkdir(exist_ok=True)
    np.savez(d / "nodes.npz", words=words, topic=y, train=r[:300], valid=r[300:600], test=r[600:])
    pd.DataFrame(e + (1 if side == "bug" else 0), columns=["citing", "cited"]).to_csv(d / "citations.csv", index=False)
    json.dump(dict(seed=1, hidden=32, dropout=.4, lr=.01, weight_decay=5e-4, epochs=120, patience=40), open(d / "gcn.json", "w"))
