import os
import numpy as np
rng = np.random.default_rng(15)
n, T = 900, 24
t = np.linspace(-20, 60, T)
mags, labels = [], []
for i in range(n):
    k = i % 3
    peak, shift = rng.normal(19, .6), rng.normal(0, 3)
    s = t - shift
    if k == 0:      # Ia
        m = peak + np.where(s < 0, .004 * s ** 2, .05 * s - .0002 * s ** 2)
    elif k == 1:    # II-P plateau
        m = peak + .6 + np.where(s < 0, .01 * s ** 2, np.minimum(.012 * s, 9) + np.maximum(s - 45, 0) * .1)
    else:           # slow transient
        m = peak + .3 + np.where(s < 0, .0015 * s ** 2, .022 * s)
    m = m * 1.0 + rng.normal(0, .3, T)
    mags.append(m); labels.append(k)
mags, labels = np.array(mags), np.array(labels)
miss = rng.random(mags.shape) < .12
order = rng.permutation(n)
for folder in ("bug", "ok"):
    os.makedirs(folder, exist_ok=True)
    m = mags.copy()
    if folder == "ok":
        for r in range(n):
            good = ~miss[r]
            m[r, miss[r]] = np.interp(t[miss[r]], t[good], m[r, good])
    else:
        m[miss] = 99.999
    m, l = m[order].astype(np.float32).round(3), labels[order].astype(np.int64)
    np.savez_compressed(f"{folder}/transients.npz", mag=m, label=l, phase=t.astype(np.float32))
