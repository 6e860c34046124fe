import numpy as np
rng = np.random.default_rng(9); w = rng.normal(0, 1, 6)
def make(nq, fixed=None):
    rows, sizes = [], []
    for q in range(nq):
        n = int(rng.integers(2, 7)); level = rng.normal(0, 1)
        ctx = rng.normal(0, 1, 2)
        x = rng.normal(0, 1, (n, 6)); u = x @ w - 8 * level + rng.normal(0, .3, n); x = x + 1.5 * level * w / np.linalg.norm(w)
        rows += [np.r_[x[i], ctx, u[i]] for i in range(n)]; sizes.append(n)
    return np.array(rows), sizes
tr, gs = make(420); va, gv = make(120)
total = len(tr)
other = [12] * (total // 12) + ([total % 12] if total % 12 else [])
for k, g in (("bug", other), ("ok", gs)):
    np.savetxt(f"{k}/train.csv", tr, "%.3f", ","); np.savetxt(f"{k}/valid.csv", va, "%.3f", ",")
    open(f"{k}/train.group", "w").write("\n".join(map(str, g))); open(f"{k}/valid.group", "w").write("\n".join(map(str, gv)))
