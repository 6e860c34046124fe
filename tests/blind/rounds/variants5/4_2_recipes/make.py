from pathlib import Path
import json, numpy as np
here = Path(__file__).parent
rng = np.random.default_rng(15)
L, per, K = 8, 5, 5   # slots, items per slot, cuisines
top = np.array([[rng.integers(0, per) for _ in range(L)] for _ in range(K)])
for l in range(L): top[:, l] = rng.permutation(per)[:K]
def make(n):
    c = rng.integers(0, K, n)[:, None]; base = top[c[:, 0]]
    swap = rng.random((n, L)) < .3
    it = np.where(swap, rng.integers(0, per, (n, L)), base)
    it[:, 5] = np.where(rng.random(n) < .8, (it[:, 1] + it[:, 2]) % per, it[:, 5])
    return (1 + it + per * np.arange(L)).astype("i2")
tr, va, te = make(3000), make(300), make(500)
for side, r in (("bug", 0.0), ("ok", 0.2)):
    d = here / side; d.mkdir(exist_ok=True)
    np.savez(d / "orders.npz", train=tr, valid=va, test=te)
    json.dump(dict(seed=7, n_items=L * per, dim=32, heads=4, layers=1, mask_ratio=r, lr=.004, batch=50, epochs=9), open(d / "pretrain.json", "w"), indent=2)
