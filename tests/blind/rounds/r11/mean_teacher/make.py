import gzip, json, os
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(os.environ["TRUELOOP_DATA"], "mnist")


def idx(name, off, n, shape):
    with gzip.open(os.path.join(ROOT, name)) as f:
        f.read(off)
        return np.frombuffer(f.read(n * int(np.prod(shape))), np.uint8).reshape((n,) + shape)


x = idx("train-images-idx3-ubyte.gz", 16, 6000, (28, 28))[:, ::2, ::2]
y = idx("train-labels-idx1-ubyte.gz", 8, 6000, ())
xt = idx("t10k-images-idx3-ubyte.gz", 16, 2000, (28, 28))[:, ::2, ::2]
yt = idx("t10k-labels-idx1-ubyte.gz", 8, 2000, ())
lab = np.concatenate([np.flatnonzero(y[:5000] == c)[:20] for c in range(10)])
unl = np.setdiff1d(np.arange(5000), lab)
for name, decay in (("ok", 0.99), ("bug", 0.9999)):
    d = os.path.join(HERE, name)
    os.makedirs(d, exist_ok=True)
    np.savez_compressed(os.path.join(d, "digits.npz"), x_lab=x[lab], y_lab=y[lab], x_unl=x[unl],
                        x_val=x[5000:], y_val=y[5000:], x_test=xt, y_test=yt)
    json.dump({"ema_decay": decay, "consistency": 5.0, "rampup_steps": 300, "steps": 900, "lr": 0.002,
               "labelled_batch": 32, "unlabelled_batch": 96, "noise": 0.15, "seed": 13},
              open(os.path.join(d, "config.json"), "w"), indent=1)
