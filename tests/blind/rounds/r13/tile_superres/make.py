"""Writes bug/ and ok/: hr.npy, lr.npy (training tiles), eval_hr.npy, eval_lr.npy."""
import gzip, os
import numpy as np
import torch
import torch.nn.functional as F
HERE = os.path.dirname(os.path.abspath(__file__))
D = os.path.join(os.environ["TRUELOOP_DATA"], "fashion-mnist")


def read(kind, n):
    with gzip.open(f"{D}/{kind}-images-idx3-ubyte.gz") as f:
        x = np.frombuffer(f.read(16 + n * 784), np.uint8, offset=16).reshape(n, 1, 28, 28)
    return torch.from_numpy(x.astype(np.float32) / 255)


u8 = lambda t: (t.clamp(0, 1) * 255).round().to(torch.uint8).numpy()
half = lambda t: F.avg_pool2d(t, 2)
a, b = read("train", 800), read("t10k", 200)
for name in ("bug", "ok"):
    d = os.path.join(HERE, name)
    os.makedirs(d, exist_ok=True)
    src = F.interpolate(half(a), scale_factor=2, mode="bilinear", align_corners=False) if name == "bug" else a
    np.save(os.path.join(d, "hr.npy"), u8(src))
    np.save(os.path.join(d, "lr.npy"), u8(half(a)))
    np.save(os.path.join(d, "eval_hr.npy"), u8(b))
    np.save(os.path.join(d, "eval_lr.npy"), u8(half(b)))
