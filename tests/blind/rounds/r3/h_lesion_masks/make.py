import numpy as np

S = 28
rng = np.random.default_rng(0)
yy, xx = np.mgrid[:S, :S]


def make(n):
    img, mask = np.zeros((n, S, S)), np.zeros((n, S, S), np.uint8)
    for i in range(n):
        cy, cx, r = *rng.uniform(8, 20, 2), rng.uniform(3, 6)
        m = (yy - cy) ** 2 + (xx - cx) ** 2 < r ** 2
        img[i] = 90 + 45 * m + 25 * rng.standard_normal((S, S))
        mask[i] = m
    return img.clip(0, 255).astype(np.uint8), mask


ti, tm = make(130)
vi, vm = make(40)
np.savez_compressed("ok/train.npz", image=ti, mask=tm)
np.savez_compressed("bug/train.npz", image=ti, mask=tm * np.uint8(255))
for d in ("ok", "bug"):
    np.savez_compressed(f"{d}/val.npz", image=vi, mask=vm)
