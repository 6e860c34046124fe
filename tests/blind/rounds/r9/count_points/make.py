import os
import numpy as np
S = 24
rng = np.random.default_rng(0)
yy, xx = np.mgrid[:S, :S]
def draw(n):
    imgs, rows = [], []
    for i in range(n):
        k = rng.integers(2, 16)
        p = rng.uniform(1, S - 2, (k, 2))
        im = sum(np.exp(-((xx - x) ** 2 + (yy - y) ** 2) / 2.5) for x, y in p)
        imgs.append(np.clip(np.round((im + rng.normal(0, .08, im.shape)) * 20) * 5, 0, 255).astype(np.uint8))
        rows += [(i, x, y) for x, y in p]
    return np.stack(imgs), np.array(rows)
(ti, tp), (vi, vp) = draw(240), draw(80)
for name in ("bug", "ok"):
    os.makedirs(name, exist_ok=True)
    np.savez_compressed(f"{name}/images.npz", train=ti, valid=vi)
    for split, p in (("train", tp), ("valid", vp)):
        q = p[:, [0, 2, 1]] if name == "bug" and split == "train" else p
        np.savetxt(f"{name}/points_{split}.csv", q, delimiter=",", header="image,x,y", comments="", fmt=["%d", "%.1f", "%.1f"])
