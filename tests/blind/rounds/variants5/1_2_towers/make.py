from pathlib import Path
import json, numpy as np
here = Path(__file__).parent
rng = np.random.default_rng(8)
n, k = 3000, 16
z = rng.normal(size=(n, k))
q = np.tanh(z @ rng.normal(size=(k, 40)) / 2.5) + .5 * rng.normal(size=(n, 40))
p = np.tanh(z @ rng.normal(size=(k, 60)) / 2.5) + .5 * rng.normal(size=(n, 60))
split = np.zeros(n, int); r = rng.permutation(n); split[r[:500]] = 1; split[r[500:1000]] = 2
for side, t in (("bug", 14.3), ("ok", 0.07)):
    d = here / side; d.mkdir(exist_ok=True)
    np.savez(d / "pairs.npz", query=q.astype("f4"), product=(p * 3 + 1).astype("f4"), split=split)
    json.dump(dict(seed=5, hidden=128, embed_dim=32, temperature=t, lr=0.05, momentum=0.9, batch_size=200, epochs=30), open(d / "params.json", "w"), indent=2)
