import numpy as np

S = 20


def scenes(n, rng):
    yy, xx = np.mgrid[0:S, 0:S]
    bands = np.zeros((n, 4, S, S), np.float32)
    mask = np.zeros((n, S, S), np.uint8)
    for i in range(n):
        veg = 0.25 + 0.1 * np.sin(xx / rng.uniform(2, 6) + rng.uniform(0, 6)) * np.cos(yy / rng.uniform(2, 6))
        fire = np.zeros((S, S))
        for _ in range(rng.integers(1, 4)):
            cy, cx, a, b = rng.uniform(1, S - 1), rng.uniform(1, S - 1), rng.uniform(1, 2.2), rng.uniform(1.5, 4.5)
            th = rng.uniform(0, np.pi)
            u, v = (xx - cx) * np.cos(th) + (yy - cy) * np.sin(th), -(xx - cx) * np.sin(th) + (yy - cy) * np.cos(th)
            fire = np.maximum(fire, np.exp(-((u / b) ** 2 + (v / a) ** 2)))
        hot_roof = (np.abs(xx - rng.uniform(0, S)) < 2) & (np.abs(yy - rng.uniform(0, S)) < 2)
        mask[i] = fire > 0.4
        bands[i, 0] = 298 + 8 * rng.normal() + 60 * fire + 22 * hot_roof + rng.normal(0, 6, (S, S))
        bands[i, 1] = 292 + 5 * rng.normal() + 12 * fire + 18 * hot_roof + rng.normal(0, 3, (S, S))
        bands[i, 2] = veg * (1 - 0.6 * fire) + rng.normal(0, 0.03, (S, S))
        bands[i, 3] = 0.18 + 0.25 * fire + 0.1 * hot_roof + rng.normal(0, 0.05, (S, S))
    return bands, mask


rng = np.random.default_rng(70)
x, m = scenes(400, rng)
xt, mt = scenes(120, rng)
swath = rng.permutation(400) < 350
for side in ("bug", "ok"):
    y = m.copy()
    if side == "bug":
        y[swath] = y[swath].transpose(0, 2, 1)
    np.savez(f"{side}/train.npz", bands=x, mask=y)
    np.savez(f"{side}/test.npz", bands=xt, mask=mt)
