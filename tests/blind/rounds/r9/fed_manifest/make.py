import gzip, json, os
import numpy as np
D = os.environ["TRUELOOP_DATA"] + "/fashion-mnist/"
x = np.frombuffer(gzip.open(D + "t10k-images-idx3-ubyte.gz").read(), np.uint8, offset=16).reshape(-1, 7, 4, 7, 4).mean((2, 4))
y = np.frombuffer(gzip.open(D + "t10k-labels-idx1-ubyte.gz").read(), np.uint8, offset=8).astype(np.int64)
x = x.reshape(-1, 49).round().astype(np.uint8)
rng = np.random.default_rng(9)
o = rng.permutation(len(y))[:2600]; x, y = x[o], y[o]
tx, ty, x, y = x[:600], y[:600], x[600:], y[600:]
mix = rng.dirichlet([0.4] * 6, 10)
owner = np.array([rng.choice(6, p=mix[c]) for c in y])
names = ["aachen", "bergen", "cork", "delft", "evora", "ghent"]
for d in ("bug", "ok"):
    os.makedirs(d, exist_ok=True)
    man = []
    for k, n in enumerate(names):
        np.savez(f"{d}/{n}.npz", x=x[owner == k], y=y[owner == k].astype(np.uint8))
        man.append({"site": n, "file": f"{n}.npz", "num_examples": int((owner == k).sum())})
    if d == "bug":
        man[3]["num_examples"] = os.path.getsize(f"{d}/{man[3]['file']}")
    np.savez(f"{d}/heldout.npz", x=tx, y=ty.astype(np.uint8))
    json.dump({"sites": man, "rounds": 15, "local_epochs": 1, "lr": 0.03, "momentum": 0.9, "batch": 32}, open(f"{d}/federation.json", "w"), indent=1)
    print([m["num_examples"] for m in man])
