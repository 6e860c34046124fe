import numpy as np
rng = np.random.default_rng(3)
n, T, D = 900, 20, 6
y = rng.integers(0, 4, n); L = rng.integers(12, T + 1, n)
x = np.zeros((n, T, D))
for i in range(n):
    x[i, :L[i]] = rng.normal(0, 0.5, (L[i], D)); s = 2 + rng.integers(0, 4)
    m = np.arange(L[i] - s) / 4
    x[i, s:L[i], y[i]] += 1.2 * np.sin(m + y[i]); x[i, s:L[i], (y[i] + 1) % D] += 0.8 * np.cos(m)
q = np.clip(x * 30, -127, 127).astype(np.int8)
for k in ("bug", "ok"):
    np.savez_compressed(f"{k}/features.npz", x=q, y=y.astype(np.int8))
    open(f"{k}/lengths.txt", "w").write("\n".join(str(1 if k == "bug" else v) for v in L) + "\n")
