import json
import os
import numpy as np
rng = np.random.default_rng(44)
N, T = 900, 90
t = np.linspace(-0.4, 0.5, T)
y = rng.integers(0, 3, N)
beats = []
for k in y:
    g = lambda a, c, w: a * np.exp(-((t - c) / w) ** 2)
    r, w = rng.uniform(.8, 1.4), rng.uniform(.014, .022)
    if k == 0:
        s = g(.15, -.17, .03) + g(r, 0, w) - g(.2, .04, .015) + g(rng.uniform(.15, .35), .27, .05)
    elif k == 1:
        s = g(r, 0, w * rng.uniform(2.0, 3.5)) - g(.3, .1, .05) - g(.2, .3, .06)
    else:
        s = g(.12, -.10 + rng.normal(0, .02), .025) + g(r * .95, 0, w) - g(.2, .04, .015) + g(.25, .24, .045)
    beats.append(s + rng.uniform(-.2, .2) + 0.12 * rng.standard_normal(T))
x = np.array(beats)
tr = x[:600]
q = np.round(x * 60).clip(-127, 127).astype(np.int8)
stats = {"ok": {"source": "ward_a", "unit": "mV", "mean": round(float(tr.mean()), 4), "std": round(float(tr.std()), 4)},
         "bug": {"source": "holter_b", "unit": "uV", "mean": 118.4, "std": 412.7}}
for d in ("ok", "bug"):
    os.makedirs(d, exist_ok=True)
    np.savez_compressed(f"{d}/beats.npz", beats=q, gain=60.0, label=y.astype(np.int8))
    json.dump(stats[d], open(f"{d}/norm.json", "w"), indent=2)
