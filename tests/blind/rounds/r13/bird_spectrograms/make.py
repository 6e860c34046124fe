"""Writes bug/ and ok/: clips.npz (waveforms and tags) and stats.json for the front end."""
import json, os
import numpy as np
HERE = os.path.dirname(os.path.abspath(__file__))
SR, N = 2000, 2000


def clips(n, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(N) / SR
    X, Y = np.zeros((n, N), np.float32), np.zeros(n, np.int64)
    for i in range(n):
        k = rng.integers(0, 5)
        f0, amp = rng.uniform(150, 300), 10 ** rng.uniform(-1.5, 0)
        slope = [0, 350, -100, 0, 0][k]
        ph = 2 * np.pi * (f0 * t + slope * t ** 2 / 2)
        if k == 3:
            ph = ph + 8 * np.sin(2 * np.pi * 6 * t)
        w = np.sin(ph) * ((np.sin(2 * np.pi * 5 * t) > 0) if k == 4 else 1)
        X[i] = amp * w + amp * 0.5 * rng.standard_normal(N)
        Y[i] = k
    return X, Y


def spec(X):
    fr = np.lib.stride_tricks.sliding_window_view(X, 128, axis=1)[:, ::64] * np.hanning(128).astype(np.float32)
    return np.abs(np.fft.rfft(fr, axis=-1)) ** 2


xa, ya = clips(700, 1)
xb, yb = clips(300, 2)
p = spec(xa)
for name in ("bug", "ok"):
    d = os.path.join(HERE, name)
    os.makedirs(d, exist_ok=True)
    np.savez(os.path.join(d, "clips.npz"), train=xa.astype(np.float16), train_tag=ya, test=xb.astype(np.float16), test_tag=yb)
    v = p if name == "bug" else np.log(p + 1e-6)
    json.dump({"n_fft": 128, "hop": 64, "mean": float(v.mean()), "std": float(v.std())}, open(os.path.join(d, "stats.json"), "w"))
