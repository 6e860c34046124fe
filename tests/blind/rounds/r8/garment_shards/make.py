import os
import gzip
from pathlib import Path
import numpy as np
R = os.environ["TRUELOOP_DATA"] + "/fashion-mnist/"
def rd(n, k):
    x = np.frombuffer(gzip.open(f"{R}{n}-images-idx3-ubyte.gz").read(16 + k * 784), np.uint8, offset=16).reshape(k, 14, 2, 14, 2)
    y = np.frombuffer(gzip.open(f"{R}{n}-labels-idx1-ubyte.gz").read(8 + k), np.uint8, offset=8)
    return x.astype(np.float32).mean((2, 4)).astype(np.uint8), y.astype(np.int64)
x, y = rd("train", 1120)
xv, yv = rd("t10k", 340)
for d in ("ok", "bug"):
    Path(d).mkdir(exist_ok=True)
    for k in range(4):
        s = slice(280 * k, 280 * k + 280)
        yy = y[s] + (1 if d == "bug" and k in (1, 3) else 0)
        np.savez_compressed(f"{d}/train_{k:02d}.npz", images=x[s], labels=yy)
    np.savez_compressed(f"{d}/val.npz", images=xv, labels=yv)
