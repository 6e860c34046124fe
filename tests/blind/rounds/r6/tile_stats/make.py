import json, os
import numpy as np

rng = np.random.default_rng(3)
n, s = 800, 8
proto = np.array([[.05, .08, .04, .45], [.09, .12, .12, .30], [.16, .18, .22, .28], [.06, .07, .05, .03], [.12, .16, .10, .38]])
y = rng.integers(0, 5, n)
x = proto[y][:, :, None, None] * rng.normal(1, .12, (n, 4, 1, 1)) + rng.normal(0, .03, (n, 4, s, s))
x = np.clip(x, 0, 1)
for folder in ("bug", "ok"):
    os.makedirs(folder, exist_ok=True)
    q = (x * 255).round().astype(np.uint8)
    np.savez_compressed(f"{folder}/tiles.npz", tiles=q, labels=y.astype(np.int64))
    if folder == "ok":
        tr = q[:600] / 255.0
        stats = {"sensor": "MSI-A", "mean": [round(float(v), 4) for v in tr.mean((0, 2, 3))],
                 "std": [round(float(v), 4) for v in tr.std((0, 2, 3))]}
    else:
        stats = {"sensor": "MSI-B", "mean": [1353.7, 1117.2, 1041.8, 2347.9], "std": [897.3, 736.0, 684.8, 1099.6]}
    json.dump(stats, open(f"{folder}/band_stats.json", "w"), indent=1)
