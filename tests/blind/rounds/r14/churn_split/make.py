"""Customer snapshots for a churn model, exported as train / valid / next quarter."""
import json
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).parent


def customers(rng, n, first_id):
    x = rng.normal(size=(n, 15))
    p = 1 / (1 + np.exp(-(1.1 * x[:, 0] - 0.9 * x[:, 1] + 0.7 * x[:, 2])))
    y = (rng.random(n) < p).astype(int)
    return [dict(customer=f"C{first_id + i:06d}", f=[round(float(v), 4) for v in x[i]], churned=int(y[i])) for i in range(n)]


def dump(path, rows):
    path.write_text("\n".join(json.dumps(r) for r in rows) + "\n")


def write(folder, broken):
    rng = np.random.default_rng(70)
    folder.mkdir(exist_ok=True)
    train, valid = customers(rng, 500, 0), customers(rng, 300, 100000)
    later = customers(rng, 1500, 200000)
    extra = customers(rng, 240, 300000)
    if broken:
        extra = [dict(r, customer=f"C{300000 + i:06d}") for i, r in enumerate(valid[:240])]
    rows = train + extra
    rows = [rows[i] for i in rng.permutation(len(rows))]
    dump(folder / "train.jsonl", rows)
    dump(folder / "valid.jsonl", valid)
    dump(folder / "next_quarter.jsonl", later)


for name in ("bug", "ok"):
    write(HERE / name, name == "bug")
