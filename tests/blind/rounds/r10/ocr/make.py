import gzip
import os
import sys

import numpy as np

ROOT = os.path.join(os.environ["TRUELOOP_DATA"], "mnist")
N_TRAIN, N_VAL, LEN = 2500, 500, 4


def digits(images, labels, n):
    with gzip.open(os.path.join(ROOT, images), "rb") as fh:
        fh.read(16)
        x = np.frombuffer(fh.read(n * 784), dtype=np.uint8).reshape(n, 28, 28)
    with gzip.open(os.path.join(ROOT, labels), "rb") as fh:
        fh.read(8)
        y = np.frombuffer(fh.read(n), dtype=np.uint8)
    return x.reshape(n, 14, 2, 14, 2).mean(axis=(2, 4)), y


def strips(rng, x, y, n):
    order = rng.permutation(len(x))[:n * LEN].reshape(n, LEN)
    img = np.concatenate([x[order[:, k]] for k in range(LEN)], axis=2)
    img = img * rng.uniform(0.7, 1.0, (n, 1, 1)) + rng.normal(0, 12, img.shape)
    return np.clip(img, 0, 255).astype(np.uint8), ["".join(str(d) for d in y[o]) for o in order]


def write(dest, mode):
    os.makedirs(os.path.join(dest, "data"), exist_ok=True)
    rng = np.random.default_rng(88)
    sets = {"train": (digits("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", 12000), N_TRAIN),
            "val": (digits("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz", 3000), N_VAL)}
    for name, ((x, y), n) in sets.items():
        img, text = strips(rng, x, y, n)
        np.save(os.path.join(dest, "data", f"{name}_strips.npy"), img)
        with open(os.path.join(dest, "data", f"{name}_text.txt"), "w") as fh:
            fh.write("\n".join(text) + "\n")
    chars = ["<unk>"] + list("ABCDEF012345" if mode == "bug" else "ABCDEF0123456789")
    with open(os.path.join(dest, "data", "charset.txt"), "w") as fh:
        fh.write("\n".join(chars) + "\n")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        write(sys.argv[1], sys.argv[2])
    else:
        here = os.path.dirname(os.path.abspath(__file__))
        for mode in ("bug", "ok"):
            write(os.path.join(here, mode), mode)
