import gzip, json, os
import numpy as np
D = os.environ["TRUELOOP_DATA"] + "/mnist/"
x = np.frombuffer(gzip.open(D + "t10k-images-idx3-ubyte.gz").read(), np.uint8, offset=16).reshape(-1, 7, 4, 7, 4).mean((2, 4))
y = np.frombuffer(gzip.open(D + "t10k-labels-idx1-ubyte.gz").read(), np.uint8, offset=8).astype(np.int64)
x = x.reshape(-1, 49).round().astype(np.uint8)
o = np.random.default_rng(12).permutation(len(y))[:2700]; x, y = x[o], y[o]
px, py, tx, ty = x[:2000], y[:2000], x[2000:], y[2000:]
s = np.argsort(py, kind="stable"); px, py = px[s], py[s]
for d, p in (("bug", 0.0), ("ok", 0.4)):
    os.makedirs(d, exist_ok=True)
    np.savez(f"{d}/pool.npz", x=px, y=py.astype(np.uint8))
    np.savez(f"{d}/test.npz", x=tx, y=ty.astype(np.uint8))
    json.dump({"seed": 4, "hidden": 128, "dropout": p, "lr": 0.003, "mc_passes": 16, "initial": 30, "rounds": 7, "query": 30, "epochs": 15}, open(f"{d}/settings.json", "w"), indent=1)
