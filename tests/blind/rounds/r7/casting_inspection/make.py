import os
import numpy as np

here = os.path.dirname(os.path.abspath(__file__))


def shots(n, seed):
    r = np.random.default_rng(seed)
    y = r.integers(0, 2, n)
    yy, xx = np.mgrid[:14, :14]
    imgs = []
    for k in y:
        cx, cy = r.uniform(5, 9, 2)
        img = 120 + 50 * np.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / 18) + r.normal(0, 16, (14, 14))
        if k:
            a, b = r.integers(1, 11, 2)
            img[a:a + 3, b:b + 3] -= r.uniform(18, 60)
        imgs.append(np.clip(img, 0, 255))
    return np.stack(imgs).astype(np.uint8), y.astype(np.uint8)


train_x, train_y = shots(600, 1)
val_x, val_y = shots(300, 2)
for name in ("bug", "ok"):
    os.makedirs(f"{here}/{name}", exist_ok=True)
    np.savez_compressed(f"{here}/{name}/shift_early.npz", images=train_x, scrap=train_y)
    vx, vy = val_x.copy(), val_y.copy()
    if name == "bug":
        src = np.random.default_rng(7).choice(600, 240, replace=False)
        dst = np.random.default_rng(8).choice(300, 240, replace=False)
        vx[dst], vy[dst] = train_x[src], train_y[src]
    np.savez_compressed(f"{here}/{name}/shift_late.npz", images=vx, scrap=vy)
