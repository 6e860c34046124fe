import numpy as np
rng = np.random.default_rng(1)
n, k, d = 500, 4, 24
y = rng.integers(0, k, n)
p = np.where(y[:, None] == y[None], 0.03, 0.004)
i, j = np.triu_indices(n - 1, 1)
keep = rng.random(len(i)) < p[i, j]
edges = np.stack([i[keep], j[keep]], 1)
x = 0.5 * rng.standard_normal((k, d))[y] + rng.standard_normal((n, d))
split = rng.choice(3, n, p=[0.4, 0.2, 0.4])
for name, shift in (("ok", 0), ("bug", 1)):
    np.savez_compressed(f"{name}/nodes.npz", features=x.astype(np.float16), label=y, split=split)
    np.savetxt(f"{name}/edges.tsv", edges + shift, fmt="%d", delimiter="\t")
