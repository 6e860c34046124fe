import json
import numpy as np

cols = ["utilization", "debt_to_income", "inquiries", "age", "history_years", "open_accounts"]
for name in ("bug", "ok"):
    rng = np.random.default_rng(9)
    for part, n in (("train", 2200), ("val", 900)):
        util, dti = rng.beta(2, 3, n), rng.beta(2, 4, n)
        inq, age = rng.poisson(1.2, n), rng.normal(42, 11, n)
        hist, acc = rng.gamma(3, 3, n), rng.poisson(5, n)
        z = -5.2 + 5.5 * util + 6.0 * dti + 0.2 * inq - 0.01 * (age - 42) - 0.03 * hist
        y = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int)
        x = np.stack([util, dti, inq, age, hist, acc], 1)
        for c in (0, 1):
            missing = rng.random(n) < 0.03
            x[missing, c] = -999 if name == "bug" else np.median(x[~missing, c])
        with open(f"{name}/{part}.csv", "w") as f:
            f.write(",".join(cols) + ",default\n")
            for row, label in zip(x, y):
                f.write(",".join(f"{v:.3f}".rstrip("0").rstrip(".") for v in row) + f",{label}\n")
    json.dump(dict(seed=3, epochs=20, batch_size=64, hidden=32, lr=2e-3, weight_decay=1e-3), open(f"{name}/config.json", "w"), indent=1)
