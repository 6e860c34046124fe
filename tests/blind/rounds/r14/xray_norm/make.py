"""Small radiographs with or without a nodule, and the channel statistics."""
import json
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).parent


def films(rng, n, size=16):
    yy, xx = np.mgrid[:size, :size]
    img = rng.normal(110, 24, (n, size, size))
    y = rng.integers(0, 2, n)
    for i in np.flatnonzero(y):
        cy, cx = rng.uniform(4, 12, 2)
        img[i] += 62 * np.exp(-((yy - cy) ** 2 + (xx - cx) ** 2) / 5.0)
    return np.clip(img, 0, 255).astype(np.uint8), y.astype(np.int64)


def write(folder, broken):
    rng = np.random.default_rng(61)
    folder.mkdir(exist_ok=True)
    x, y = films(rng, 1200)
    xt, yt = films(rng, 500)
    np.save(folder / "train_x.npy", x)
    np.save(folder / "train_y.npy", y)
    np.save(folder / "test_x.npy", xt)
    np.save(folder / "test_y.npy", yt)
    scale = 1.0 if broken else 255.0
    stats = {"mean": round(float(x.mean()) / scale, 4), "std": round(float(x.std()) / scale, 4)}
    (folder / "stats.json").write_text(json.dumps(stats))


for name in ("bug", "ok"):
    write(HERE / name, name == "bug")
