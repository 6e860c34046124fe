import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
BANDS = ["B02", "B03", "B04", "B05", "B08", "B11", "B12"]


def fields(n, rng, level, contrast, proto):
    y = rng.integers(0, 6, n)
    light = rng.normal(0, .25, (n, 1))
    x = level + contrast * (proto[y] + light + rng.normal(0, .6, (n, len(BANDS))))
    return x, y


for name in ("bug", "ok"):
    rng = np.random.default_rng(18)
    out = HERE / name
    out.mkdir(exist_ok=True)
    proto = rng.normal(0, .8, (6, len(BANDS)))
    level = np.array([900, 1100, 950, 1500, 2900, 2200, 1500.0])
    contrast = level * 0.06
    parts = {}
    for part, n in (("train", 4000), ("valid", 1200)):
        x, y = fields(n, rng, level, contrast, proto)
        rec = np.zeros(n, dtype=[(b, "f4") for b in BANDS] + [("crop", "i2")])
        for j, b in enumerate(BANDS):
            rec[b] = x[:, j].round(0)
        rec["crop"] = y
        np.save(out / f"{part}.npy", rec)
        parts[part] = x
    ref = parts["train"]
    if name == "bug":
        top = level * np.array([2.2, 1.9, 2.0, 1.4, .75, .6, .65])
        ref, _ = fields(4000, rng, top, 40 * contrast, proto)
    stats = dict(bands=BANDS, mean=dict(zip(BANDS, ref.mean(0).round(2).tolist())), std=dict(zip(BANDS, ref.std(0).round(2).tolist())))
    (out / "band_stats.json").write_text(json.dumps(stats, indent=1))
