import gzip, os
import numpy as np
D = os.environ["TRUELOOP_DATA"] + "/mnist/"
x = np.frombuffer(gzip.open(D + "t10k-images-idx3-ubyte.gz").read(), np.uint8, offset=16).reshape(-1, 7, 4, 7, 4).mean((2, 4))
y = np.frombuffer(gzip.open(D + "t10k-labels-idx1-ubyte.gz").read(), np.uint8, offset=8).astype(np.int64)
x = x.reshape(-1, 49).round().astype(np.uint8)
o = np.random.default_rng(3).permutation(len(y))[:2900]; x, y = x[o], y[o]
pool_l, un, va = slice(0, 400), slice(400, 2100), slice(2100, 2900)
lx, ly = x[pool_l], y[pool_l]
for d in ("bug", "ok"):
    os.makedirs(d, exist_ok=True)
    idx = np.argsort(ly, kind="stable")[:250] if d == "bug" else np.arange(250)
    np.savez(f"{d}/labelled.npz", x=lx[idx], y=ly[idx])
    np.savez(f"{d}/unlabelled.npz", x=x[un])
    np.savez(f"{d}/valid.npz", x=x[va], y=y[va])
