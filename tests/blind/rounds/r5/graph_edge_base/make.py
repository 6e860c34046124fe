import numpy as np
rng = np.random.default_rng(10); n, C = 500, 4
y = rng.integers(0, C, n); M = rng.normal(0, 1, (C, 12))
x = 0.45 * M[y] + rng.normal(0, 1, (n, 12))
same = y[:, None] == y[None]
A = np.triu(rng.random((n, n)) < np.where(same, .06, .003), 1); e = np.argwhere(A)
perm = rng.permutation(n)
part = rng.permutation(n)
for k in ("bug", "ok"):
    np.savez(f"{k}/nodes.npz", x=x.astype(np.float32), y=y, train=part[:180], valid=part[180:])
    np.savetxt(f"{k}/edges.txt", e if k == "ok" else perm[e], "%d")
