from pathlib import Path
import numpy as np
here = Path(__file__).parent
rng = np.random.default_rng(12)
n, m = 1200, 120
wl = np.linspace(0, 1, m)
g = lambda c, s: np.exp(-.5 * ((wl - c) / s) ** 2)
prot = rng.normal(12, 1.8, n); moist = rng.normal(11, 1.5, n) + .2 * (prot - 12); starch = 75 - prot + rng.normal(0, 2, n)
scat = rng.lognormal(0, .12, n)[:, None]; off = rng.normal(0, .05, n)[:, None]; slope = rng.normal(0, .1, n)[:, None]
a = .02 * prot[:, None] * (g(.3, .03) + .6 * g(.72, .04)) + .03 * moist[:, None] * (g(.5, .07) + g(.33, .05)) + .008 * starch[:, None] * (g(.65, .08) + .5 * g(.2, .06))
x = scat * a + off + slope * wl + .003 * rng.normal(size=(n, m))
for side, ms in (("bug", "[12, 18, 22]"), ("ok", "[336, 504, 616]")):
    d = here / side; d.mkdir(exist_ok=True)
    np.savez(d / "nir.npz", absorbance=x, protein=prot)
    (d / "solver.yaml").write_text(f"seed: 9\nwidth: 12\nlr: 0.02\nmilestones: {ms}\ngamma: 0.1\niterations: 672\nbatch_size: 30\nlog_every: 112\n")
