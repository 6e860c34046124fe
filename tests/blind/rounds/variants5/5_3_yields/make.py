from pathlib import Path
import numpy as np
here = Path(__file__).parent
rng = np.random.default_rng(19)
n, T = 1800, 16
t = np.arange(T)
peak, width, height = rng.normal(8, 1.5, n), rng.normal(3.2, .6, n).clip(1.5), rng.normal(.6, .12, n)
ndvi = .15 + height[:, None] * np.exp(-.5 * ((t - peak[:, None]) / width[:, None]) ** 2)
water = rng.normal(.3, .1, n)[:, None] + .2 * ndvi
dry = rng.normal(0, 1, n)
red = .9 * ndvi - .04 * dry[:, None] * (t > 9)
x = np.stack([ndvi, water, red], 2) + .02 * rng.normal(size=(n, T, 3))
cloud = rng.random((n, T)) < rng.beta(2, 4, n)[:, None]
cloud[np.arange(n), rng.integers(5, 11, n)] = False
x = np.where(cloud[..., None], -9999, x).astype("f4")
y = 2 + 9 * height + .5 * (width - 3.2) - .25 * (peak - 8) + 3 * (water[:, 0] - .3) - .35 * dry + .25 * rng.normal(size=n)
for side, nd in (("bug", -999.0), ("ok", -9999.0)):
    d = here / side; d.mkdir(exist_ok=True)
    np.savez_compressed(d / "fields.npz", indices=x, yield_t_ha=y)
    (d / "yield.toml").write_text(f"seed = 2\n\n[data]\nnodata = {nd}\n\n[model]\ndim = 32\nheads = 4\n\n[train]\nlr = 0.003\nbatch_size = 60\nepochs = 20\n")
