import json
from pathlib import Path
import numpy as np

HERE = Path(__file__).resolve().parent


def photo(kind, rng):
    yy, xx = np.mgrid[0:12, 0:12]
    ph = rng.uniform(0, 6.28)
    wave = [np.sin(1.3 * xx + ph), np.sin(1.3 * yy + ph), np.sin(0.9 * (xx + yy) + ph), np.sin(0.9 * (xx - yy) + ph)][kind]
    colour = rng.uniform(0.3, 0.7, 3)
    img = colour[:, None, None] + 0.12 * wave + rng.normal(0, 0.1, (3, 12, 12))
    return np.clip(img, 0, 1)


for side in ("bug", "ok"):
    rng = np.random.default_rng(70)
    out = HERE / side
    out.mkdir(exist_ok=True)
    for part, n in (("train", 480), ("test", 240)):
        kind = rng.integers(0, 4, n)
        imgs = np.stack([photo(k, rng) for k in kind])
        np.savez(out / f"{part}.npz", images=imgs.astype(np.float32), kind=kind)
        if part == "train":
            k = 255.0 if side == "bug" else 1.0
            mean, std = imgs.mean((0, 2, 3)) * k, imgs.std((0, 2, 3)) * k
            stats = {"mean": [round(float(v), 4) for v in mean], "std": [round(float(v), 4) for v in std]}
    (out / "stats.json").write_text(json.dumps(stats))
