import json, os
import numpy as np
here = os.path.dirname(os.path.abspath(__file__))


def patients(rng, ids):
    rows = []
    for pid in ids:
        sick = int(rng.random() < 0.5)
        own = rng.normal(size=30)
        own[:4] += 0.55 * (2 * sick - 1)
        for scan in range(4):
            rows.append({"patient": f"P{pid:04d}", "scan": scan, "x": [round(float(v), 3) for v in own + 0.25 * rng.normal(size=30)], "sick": sick})
    return rows


for side in ("bug", "ok"):
    rng = np.random.default_rng(8)
    d = os.path.join(here, side)
    os.makedirs(d, exist_ok=True)
    first, second, third = patients(rng, range(110)), patients(rng, range(110, 160)), patients(rng, range(200, 500))
    pool = first + second
    if side == "bug":
        order = rng.permutation(len(pool))
        train, val = [pool[i] for i in order[:len(first)]], [pool[i] for i in order[len(first):]]
    else:
        train, val = first, second
    for name, rows in (("train", train), ("val", val), ("prospective", third)):
        with open(os.path.join(d, name + ".json"), "w") as f:
            json.dump(rows, f)
