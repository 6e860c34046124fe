from pathlib import Path

import numpy as np
import yaml

HERE = Path(__file__).parent
NAMES = ["bicycle", "bus", "car", "motorbike", "tram", "truck"]
YY, XX = np.mgrid[0:16, 0:16]


def crop(k, rng):
    img = np.full((16, 16, 3), rng.uniform(90, 150)) + rng.normal(0, 14, 3)
    w = [4, 7, 6, 4, 7, 7][k]
    h = [3, 4, 2.5, 2.5, 5, 4][k]
    cx, cy = 8 + rng.normal(0, .8, 2)
    body = (np.abs(XX - cx) < w) & (np.abs(YY - cy) < h)
    colour = rng.uniform(40, 220, 3)
    img[body] = colour
    if k in (0, 3):
        for s in (-3, 3):
            ring = np.abs(np.hypot(XX - cx - s, YY - cy - 2) - 2) < .8
            img[ring] = 20
        if k == 3:
            img[(np.abs(XX - cx) < 2) & (np.abs(YY - cy) < 2)] = 30
    elif k == 1:
        img[(np.abs(YY - cy + 1) < 1.2) & (XX % 4 < 2) & body] = 235
    elif k == 4:
        img[:3, 7:9] = 10
        img[(np.abs(YY - cy + 2) < 1.2) & body] = 235
    elif k == 5:
        img[(XX - cx > 3) & body] = 255 - colour
    return np.clip(img + rng.normal(0, 26, img.shape), 0, 255).astype(np.uint8)


for name in ("bug", "ok"):
    rng = np.random.default_rng(6)
    out = HERE / name
    out.mkdir(exist_ok=True)
    for part, n in (("north", 2400), ("south", 800)):
        y = rng.integers(0, 6, n)
        x = np.stack([crop(k, rng) for k in y])
        if name == "bug" and part == "south":
            y = np.array([0, 3, 1, 2, 4, 5])[y]
        np.savez(out / f"{part}.npz", rgb=x, cls=y)
    (out / "data.yaml").write_text(yaml.safe_dump(dict(train="north.npz", valid="south.npz", names=NAMES, lr=2e-3, epochs=7, seed=10)))
