import os
import numpy as np
here = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(12)
F = np.array([[300, 2300], [450, 1900], [700, 1200], [500, 900], [330, 750], [600, 1600]], float)
N = 256
def make(n, rate):
    y = rng.integers(0, len(F), n); t = np.arange(N) / rate
    out = np.zeros((n, N))
    for i, v in enumerate(y):
        f0 = rng.uniform(95, 220); shift = rng.normal(1, .11)
        for h in range(1, int(3400 // f0)):
            f = h * f0
            a = sum(g / (1 + ((f - c*shift) / 110.) ** 2) for c, g in zip(F[v], (1.0, .8)))
            out[i] += a * np.sin(2*np.pi*f*t + rng.uniform(0, 6.28))
        out[i] /= np.abs(out[i]).max()
        out[i] = out[i]*rng.uniform(.5, .9) + rng.normal(0, .25, N)
    return np.clip(out*127+128, 0, 255).astype(np.uint8), y.astype(np.int64)
tr = make(600, 8000)
state = rng.bit_generator.state
for d, rate in (("ok", 8000), ("bug", 16000)):
    rng.bit_generator.state = state
    va = make(300, rate)
    os.makedirs(f"{here}/{d}", exist_ok=True)
    np.savez_compressed(f"{here}/{d}/train.npz", audio=tr[0], vowel=tr[1], rate=np.int64(8000))
    np.savez_compressed(f"{here}/{d}/valid.npz", audio=va[0], vowel=va[1], rate=np.int64(rate))
