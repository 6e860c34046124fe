import gzip
import json
import os
import numpy as np
rng = np.random.default_rng(14)
N = 480
with gzip.open(os.environ["TRUELOOP_DATA"] + "/mnist/train-images-idx3-ubyte.gz") as f:
    f.read(16)
    hr = np.frombuffer(f.read(N * 784), np.uint8).reshape(N, 28, 28)
lr = hr.reshape(N, 14, 2, 14, 2).mean((2, 4))
lr = (np.round(lr / 16) * 16 + rng.integers(-4, 5, lr.shape)).clip(0, 255).astype(np.uint8)
hr_names = [f"hr_{i}.png" for i in range(N)]
lr_names = [f"lr_{i}.png" for i in range(N)]
for d in ("ok", "bug"):
    os.makedirs(d, exist_ok=True)
    np.savez_compressed(f"{d}/scans.npz", lr=lr, hr=hr)
    # listing of the two folders, joined line by line
    left = lr_names
    right = hr_names if d == "ok" else sorted(hr_names)
    rows = [{"input": a, "target": b} for a, b in zip(left, right)]
    with open(f"{d}/pairs.json", "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")
