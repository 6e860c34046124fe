import os
import numpy as np
here = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(33)
S = 24
yy, xx = np.mgrid[0:S, 0:S]
def make(n):
    img = rng.normal(120, 22, (n, S, S)); fg = np.zeros((n, S, S), bool); edge = np.zeros((n, S, S), bool)
    for i in range(n):
        for _ in range(rng.integers(1, 3)):
            c = rng.uniform(5, S-5, 2); a, b = rng.uniform(3, 6, 2)
            r = ((yy-c[0])/a)**2 + ((xx-c[1])/b)**2
            fg[i] |= r < 1; edge[i] |= (r >= .85) & (r < 1.2)
        img[i][fg[i]] -= rng.uniform(30, 55)
    inner = fg & ~edge
    return np.clip(img, 0, 255).astype(np.uint8), fg, edge
tr, va = make(200), make(100)
for d in ("ok", "bug"):
    os.makedirs(f"{here}/{d}", exist_ok=True)
    for n, (img, fg, edge) in (("train", tr), ("valid", va)):
        m = fg.astype(np.uint8)
        if d == "ok": m[edge] = 255
        else: m = m * 255
        np.savez_compressed(f"{here}/{d}/{n}.npz", image=img, mask=m)
