from pathlib import Path
import numpy as np
here = Path(__file__).parent
rng = np.random.default_rng(21)
n, T = 1600, 60
t = np.arange(T)
y = rng.integers(0, 4, n)
f = rng.normal(0.2, 0.01, n)[:, None]; ph = rng.uniform(0, 6.28, n)[:, None]; a = rng.lognormal(0, .15, n)[:, None]
base = a * np.sin(2 * np.pi * f * t + ph)
c = y[:, None]
vib = base + (c == 2) * .6 * a * np.sin(4 * np.pi * f * t + ph) + (c == 3) * .7 * (np.sin(2 * np.pi * .07 * t + ph) > .85) + .4 * rng.normal(size=(n, T)) * (1 + .6 * (c == 1))
cur = 4 + .5 * base + (c == 3) * .25 + .35 * rng.normal(size=(n, T))
press = 6 - .3 * (c == 1) + .2 * base + .3 * rng.normal(size=(n, T))
x = np.stack([vib, cur, press], 2).astype("f4")
for side, clip in (("bug", "0.001"), ("ok", "1.0")):
    d = here / side; d.mkdir(exist_ok=True)
    np.savez(d / "windows.npz", signals=x, state=y)
    (d / "pump.ini").write_text(f"[run]\nseed = 4\n\n[model]\nhidden = 32\n\n[optim]\nlearning_rate = 0.05\nmomentum = 0.9\nmax_grad_norm = {clip}\nbatch_size = 32\nepochs = 14\n")
