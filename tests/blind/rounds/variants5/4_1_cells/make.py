from pathlib import Path
import numpy as np
here = Path(__file__).parent
rng = np.random.default_rng(9)
S = 20; yy, xx = np.mgrid[0:S, 0:S]
def patch():
    im = np.full((S, S), .08)
    for _ in range(rng.integers(2, 5)):
        cx, cy = rng.uniform(0, S, 2); r = rng.uniform(2, 5); e = rng.uniform(.7, 1.4)
        d = np.hypot((xx - cx) * e, (yy - cy) / e)
        im += rng.uniform(.3, .8) / (1 + np.exp((d - r) * 2.5))
    return im.clip(0, 1)
tr, va, te = (np.stack([patch() for _ in range(n)]).astype("f4") for n in (1000, 150, 300))
nz = lambda c: (c + .12 * rng.normal(size=c.shape)).astype("f4")
vn, tn = nz(va), nz(te)
for side, s in (("bug", "[5.0, 50.0]"), ("ok", "[0.02, 0.20]")):
    d = here / side; d.mkdir(exist_ok=True)
    np.savez_compressed(d / "patches.npz", train=tr, valid_clean=va, valid_noisy=vn, test_clean=te, test_noisy=tn)
    (d / "denoise.yaml").write_text(f"seed: 6\nwidth: 16\ndepth: 4\nsigma: {s}\nlr: 0.002\nbatch_size: 50\nepochs: 10\n")
