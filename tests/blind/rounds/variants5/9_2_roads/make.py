from pathlib import Path
import numpy as np
here = Path(__file__).parent
rng = np.random.default_rng(17)
S = 24; yy, xx = np.mgrid[0:S, 0:S].astype(float)
def tile():
    m = np.zeros((S, S), bool)
    for _ in range(rng.integers(1, 3)):
        th = rng.uniform(0, np.pi); o = rng.uniform(-8, 8)
        dd = (xx - 12) * np.cos(th) + (yy - 12) * np.sin(th) - o + 1.5 * np.sin((yy - xx) / 8 + rng.uniform(0, 6))
        m |= abs(dd) < rng.uniform(1, 1.8)
    tex = .35 + .1 * np.sin(xx / rng.uniform(2, 6) + rng.uniform(0, 6)) * np.sin(yy / rng.uniform(2, 6))
    im = np.stack([tex * .8, tex * 1.2, tex * .7], 2); im[m] = np.array([.55, .53, .52]) + rng.normal(0, .04)
    for _ in range(2):
        a, b = rng.integers(0, S - 5, 2); h, w = rng.integers(3, 6, 2); r = np.zeros((S, S), bool); r[a:a+h, b:b+w] = 1; im[r & ~m] = rng.uniform(.4, .7)
    return ((im + .07 * rng.normal(size=im.shape)).clip(0, 1) * 255).astype("u1"), m.astype("u1")
N = 560; T = [tile() for _ in range(N)]
names = [f"tile_{i:04d}" for i in range(N)]
parts = dict(train=names[:400], valid=names[400:460], test=names[460:])
for side in ("bug", "ok"):
    d = here / side
    for s in ("images", "masks"): (d / s).mkdir(parents=True, exist_ok=True)
    for p, l in parts.items(): (d / f"{p}.txt").write_text("\n".join(l) + "\n")
    for i, (im, m) in enumerate(T):
        np.save(d / "images" / f"{names[i]}.npy", im)
        np.save(d / "masks" / f"{names[i]}.npy", np.ascontiguousarray(m.T) if side == "bug" and i < 460 else m)
