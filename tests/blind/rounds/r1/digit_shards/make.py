import gzip, os
import json
import numpy as np

n = 1600
with gzip.open(os.environ["TRUELOOP_DATA"] + "/mnist/train-images-idx3-ubyte.gz") as f:
    x = np.frombuffer(f.read(16 + 784 * n)[16:], np.uint8).reshape(n, 14, 2, 14, 2).mean((2, 4))
with gzip.open(os.environ["TRUELOOP_DATA"] + "/mnist/train-labels-idx1-ubyte.gz") as f:
    y = np.frombuffer(f.read(8 + n)[8:], np.uint8)
x = (x // 16).astype(np.uint8)
names = [f"part-{k:03d}.npz" for k in range(6)]
for folder in ("bug", "ok"):
    for k, name in enumerate(names):
        np.savez_compressed(f"{folder}/{name}", image=x[200 * k:200 * k + 200], label=y[200 * k:200 * k + 200])
    np.savez_compressed(f"{folder}/val.npz", image=x[1200:], label=y[1200:])
    train = names if folder == "ok" else [names[0]] * 6
    json.dump({"seed": 8, "train": train, "val": "val.npz"}, open(f"{folder}/manifest.json", "w"), indent=1)
