from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
YY, XX = np.mgrid[0:16, 0:16]


def leaf(kind, rng):
    img = 90 + 50 * np.exp(-(((XX - 8) / 6.0) ** 2 + ((YY - 8) / 7.0) ** 2))
    if kind == 1:
        for _ in range(rng.integers(3, 6)):
            cx, cy = rng.uniform(3, 13, 2)
            img = img - 55 * np.exp(-((XX - cx) ** 2 + (YY - cy) ** 2) / 1.5)
    elif kind == 2:
        img = img + 25 * np.sin(XX * 1.6 + rng.uniform(0, 6))
    elif kind == 3:
        img = img - 45 * (np.abs(YY - rng.uniform(5, 11)) < 2)
    return np.clip(img + rng.normal(0, 30, (16, 16)), 0, 255).astype(np.uint8)


def write(stem, n, rng, shift):
    y = rng.integers(0, 4, n)
    x = np.stack([leaf(k, rng) for k in y])
    if shift:
        y = np.r_[y[1:], y[-1]]
    np.save(f"{stem}_images.npy", x)
    with open(f"{stem}_labels.csv", "w") as fh:
        fh.write("leaf,disease\n" + "".join(f"{i},{k}\n" for i, k in enumerate(y)))


for name in ("bug", "ok"):
    rng = np.random.default_rng(15)
    out = HERE / name
    out.mkdir(exist_ok=True)
    for s in range(5):
        write(out / f"plot{s}", 360, rng, name == "bug" and s != 2)
    write(out / "holdout", 500, rng, False)
