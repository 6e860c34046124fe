import os

import numpy as np

BANDS, KINDS = 64, 7

INI = """[data]
train = pixels_train.csv
validation = pixels_val.csv

[training]
epochs = 14
batch_size = 64
accumulate = {accumulate}
learning_rate = 0.004
hidden = 64
seed = 19
"""

for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    rng = np.random.default_rng(33)
    w = np.linspace(0, 1, BANDS)
    centers, depth = rng.uniform(0.1, 0.9, (KINDS, 3)), rng.uniform(0.04, 0.12, (KINDS, 3))
    ref = [1 - sum(d * np.exp(-((w - c) / 0.05) ** 2) for c, d in zip(cs, ds)) for cs, ds in zip(centers, depth)]
    for part, n in (("train", 1920), ("val", 600)):
        y = rng.integers(0, KINDS, n)
        slope = rng.normal(0, 0.08, (n, 1)) * (w - 0.5)
        spec = np.array(ref)[y] * rng.uniform(0.5, 0.9, (n, 1)) * (1 + slope) + rng.normal(0, 0.016, (n, BANDS))
        with open(f"{side}/pixels_{part}.csv", "w") as f:
            f.write("mineral," + ",".join(f"b{i:02d}" for i in range(BANDS)) + "\n")
            for k, row in zip(y, spec):
                f.write(f"{k}," + ",".join(f"{v:.4f}" for v in row) + "\n")
    with open(f"{side}/run.ini", "w") as f:
        f.write(INI.format(accumulate=48 if side == "bug" else 2))
