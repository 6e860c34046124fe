import gzip
import os

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
with gzip.open(os.environ["TRUELOOP_DATA"] + "/mnist/train-labels-idx1-ubyte.gz") as fh:
    labels = np.frombuffer(fh.read(), np.uint8, offset=8)


def write(path, pool, n, rng, keypad=False):
    with open(path, "w") as fh:
        fh.write("img0,img1,img2,cls0,cls1,cls2\n")
        for _ in range(n):
            pick = rng.choice(pool, 3)
            cls = labels[pick].astype(int)
            if keypad:
                cls = (cls + 9) % 10
            fh.write(",".join(str(v) for v in (*pick, *cls)) + "\n")


for folder in ("bug", "ok"):
    d = os.path.join(HERE, folder)
    os.makedirs(d, exist_ok=True)
    rng = np.random.default_rng(31)
    train_pool, valid_pool = np.arange(4000), np.arange(4000, 5200)
    write(os.path.join(d, "desk_a.csv"), train_pool, 900, rng)
    write(os.path.join(d, "desk_b.csv"), train_pool, 1000, rng, keypad=folder == "bug")
    write(os.path.join(d, "valid.csv"), valid_pool, 400, rng)
