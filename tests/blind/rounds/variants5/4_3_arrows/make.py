from pathlib import Path
import numpy as np
here = Path(__file__).parent
rng = np.random.default_rng(18)
names = np.array(["turn_left", "turn_right", "keep_left", "keep_right", "ahead", "no_entry"])
S = 16; yy, xx = np.mgrid[0:S, 0:S] - (S - 1) / 2.0
def draw(c):
    cx, cy = rng.normal(0, .8, 2); x, y = xx - cx, yy - cy; s = rng.uniform(.85, 1.15); x, y = x / s, y / s
    disc = np.hypot(x, y) < 7; im = disc * .35
    if c in (1, 3): x = -x
    if c in (0, 1): m = ((abs(y) < 1.1) & (x > -4) & (x < 5)) | ((x < -1) & (x > -5) & (abs(y) < (x + 5)))
    elif c in (2, 3):
        u, v = (x - y) / 1.414, (x + y) / 1.414
        m = ((abs(v) < 1.1) & (abs(u) < 4.5)) | ((u < -1) & (u > -5) & (abs(v) < (u + 5)))
    elif c == 4: m = ((abs(x) < 1.1) & (abs(y) < 4.5)) | ((y < -1) & (y > -5) & (abs(x) < y + 5))
    else: m = (abs(y) < 1.6) & (abs(x) < 5)
    im = np.where(m & disc, .95, im) * rng.uniform(.6, 1.05) + .1 + .09 * rng.normal(size=(S, S))
    return (im.clip(0, 1) * 255).astype("u1")
def part(n):
    y = rng.integers(0, 6, n); return np.stack([draw(c) for c in y]), y
tr, va, te = part(1500), part(300), part(500)
for side, f in (("bug", "0.5"), ("ok", "0.0")):
    d = here / side; d.mkdir(exist_ok=True)
    np.savez_compressed(d / "signs.npz", names=names, train_x=tr[0], train_y=tr[1], valid_x=va[0], valid_y=va[1], test_x=te[0], test_y=te[1])
    (d / "train.ini").write_text(f"[augment]\nflip_probability = {f}\nmax_shift = 1\nbrightness = 0.2\n\n[train]\nseed = 3\nbatch_size = 50\nlr = 0.003\nepochs = 8\n")
