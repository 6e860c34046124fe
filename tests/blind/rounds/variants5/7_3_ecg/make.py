from pathlib import Path
import numpy as np
here = Path(__file__).parent
rng = np.random.default_rng(41)
L = 64; t = np.linspace(0, 1, L)
g = lambda c, w: np.exp(-.5 * ((t - c) / w) ** 2)
def beats(n):
    u = lambda a, b: rng.uniform(a, b, (n, 1))
    sh = u(-.05, .05)
    x = u(.1, .25) * g(.25 + sh, .03) - u(.05, .2) * g(.42 + sh, .012) + u(.8, 1.4) * g(.45 + sh, .015) - u(.1, .4) * g(.48 + sh, .015) + u(.1, .5) * g(.7 + sh + u(-.04, .04), .05) + u(-.05, .05) * g(.58 + sh, .06)
    return x
tr, va, te = beats(3000), beats(300), beats(600)
sg = .8 * tr.std(); nz = lambda c: c + sg * rng.normal(size=c.shape)
vn, tn = nz(va), nz(te)
for side, f in (("bug", "on"), ("ok", "off")):
    d = here / side; d.mkdir(exist_ok=True)
    np.savez(d / "beats.npz", train=tr, valid_clean=va, valid_noisy=vn, test_clean=te, test_noisy=tn)
    (d / "train.env").write_text(f"SEED=3\nREPEATABLE_NOISE={f}\nNOISE_SIGMA=0.8   # in units of the training deviation\nHIDDEN=128\nLR=0.002\nBATCH=25\nEPOCHS=20\n")
