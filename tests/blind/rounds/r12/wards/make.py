"""Length-of-stay records of eight hospitals and the registry of their sizes."""
import csv
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
rng = np.random.default_rng(81)
NAMES = ["altona", "bergen", "celle", "dorum", "emden", "fulda", "gotha", "husum"]
SIZE = [1500, 1240, 1120, 1310, 640, 420, 380, 1080]
D = 10
common = rng.normal(size=(D, 4)) / 2


def records(n, special):
    x = rng.normal(size=(n, D)) + (0.8 if special else 0.0) * np.sign(np.arange(D) % 3 - 1)
    w = common + (rng.normal(size=(D, 4)) * 0.1 if not special else common[:, [1, 2, 3, 0]] * 0.8)
    score = 2.2 * np.tanh(x) @ w + rng.gumbel(size=(n, 4)) * 0.4
    return x.astype(np.float32), score.argmax(1).astype(np.int64)


data = {}
test = []
for name, n in zip(NAMES, SIZE):
    special = n < 1000
    x, y = records(n + n // 4, special)
    data[name] = (x[:n], y[:n])
    test.append((x[n:], y[n:]))
pack = {f"{k}_{a}": v[i] for k, v in data.items() for i, a in enumerate("xy")}
pack["test_x"] = np.concatenate([t[0] for t in test])
pack["test_y"] = np.concatenate([t[1] for t in test])
for folder, fmt in (("ok", "{}".format), ("bug", lambda n: f"{n:,}".replace(",", "."))):
    d = HERE / folder
    d.mkdir(exist_ok=True)
    np.savez_compressed(d / "records.npz", **pack)
    with open(d / "registry.csv", "w", newline="") as f:
        w = csv.writer(f, delimiter=";")
        w.writerow(["site", "beds", "records"])
        for k, (name, n) in enumerate(zip(NAMES, SIZE)):
            w.writerow([name, 40 + 13 * k, fmt(n)])
