import numpy as np
rng = np.random.default_rng(12)
n, T = 1050, 20
y = rng.integers(0, 4, n); L = rng.integers(8, T + 1, n)
x = np.zeros((n, T, 3))
for i in range(n):
    t = np.arange(L[i]) / 6
    v = {0: (np.cos(2 * t), np.sin(2 * t)), 1: (np.cos(2 * t), -np.sin(2 * t)), 2: (np.ones_like(t), 0 * t), 3: (np.sign(np.sin(4 * t)), 0.5 + 0 * t)}[y[i]]
    a = rng.uniform(-0.6, 0.6); vx, vy = v
    vx, vy = np.cos(a) * vx - np.sin(a) * vy, np.sin(a) * vx + np.cos(a) * vy
    p = np.cumsum(np.stack([vx, vy], 1) * 0.3, 0) + rng.normal(0, 0.5, 2)
    x[i, :L[i], :2] = p + rng.normal(0, 0.08, p.shape); x[i, :L[i], 2] = rng.normal(0, 0.3, L[i])
for name in ("ok", "bug"):
    np.save(f"{name}/trajectories.npy", x.astype(np.float16)); np.save(f"{name}/skills.npy", y.astype(np.int8))
    np.save(f"{name}/lengths.npy", (L if name == "ok" else np.ones_like(L)).astype(np.int16))
