import numpy as np

rng = np.random.default_rng(10)
shape = np.random.default_rng(0).normal(0, 1, (3, 20))


def clips(counts):
    y = np.concatenate([np.full(c, k) for k, c in enumerate(counts)])
    rng.shuffle(y)
    x = rng.normal(0, 1, (len(y), 20))
    x[y > 0] += 0.8 * shape[y[y > 0]]
    return x.astype(np.float16), y.astype(np.int8)


for side in ("bug", "ok"):
    xt, yt = clips([1470, 15, 15] if side == "bug" else [500, 500, 500])
    rng = np.random.default_rng(11)
    xv, yv = clips([200, 200, 200])
    np.savez(f"{side}/train.npz", x=xt, y=yt)
    np.savez(f"{side}/val.npz", x=xv, y=yv)
