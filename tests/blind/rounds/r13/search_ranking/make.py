"""Writes bug/ and ok/: train.csv + train.group (rows per query, in file order), test.csv + test.group."""
import os
import numpy as np
HERE = os.path.dirname(os.path.abspath(__file__))


def queries(n, seed):
    rng, out = np.random.default_rng(seed), []
    w = np.random.default_rng(9).normal(0, 1, 10)
    for _ in range(n):
        m = int(rng.integers(3, 20))
        shift = rng.normal(0, 3, 10)
        d = rng.normal(0, 1, (m, 10))
        s = d @ w + rng.normal(0, 0.7, m)
        grade = np.digitize(s, np.quantile(s, [0.5, 0.75, 0.9]))
        out.append(np.column_stack([grade, d + shift]))
    return out


def write(d, part, qs, sizes):
    np.savetxt(os.path.join(d, part + ".csv"), np.concatenate(qs), fmt="%.4f", delimiter=",")
    open(os.path.join(d, part + ".group"), "w").write("\n".join(map(str, sizes)) + "\n")


tr, te = queries(240, 1), queries(100, 2)
by_text = sorted(range(len(tr)), key=str)
for name in ("bug", "ok"):
    d = os.path.join(HERE, name)
    os.makedirs(d, exist_ok=True)
    rows = [tr[i] for i in by_text]
    write(d, "train", rows, [len(q) for q in (tr if name == "bug" else rows)])
    write(d, "test", te, [len(q) for q in te])
