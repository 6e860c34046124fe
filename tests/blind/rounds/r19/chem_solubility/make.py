import os

import numpy as np

FRAGS = ["C", "CC", "C(C)", "O", "N", "C(=O)", "c1ccccc1", "C1CCCCC1", "S", "Cl", "F", "Br", "C(=O)O", "N(C)", "C#N", "c1ccncc1",
         "OC", "C=C", "S(=O)(=O)", "C(F)(F)F"]


def assay(n, seed):
    rng = np.random.default_rng(seed)
    tab = np.random.default_rng(5)
    w = tab.normal(0, .7, len(FRAGS))
    pair = tab.normal(0, .35, (len(FRAGS), len(FRAGS)))
    out = []
    for _ in range(n):
        k = rng.integers(0, len(FRAGS), rng.integers(3, 9))
        v = w[k].sum() + sum(pair[a, b] for a, b in zip(k[:-1], k[1:])) - .15 * len(k)
        out.append(("".join(FRAGS[i] for i in k), v - 2 + rng.normal(0, 0.8)))
    return out


def write(path, rows, start):
    with open(path, "w") as f:
        f.write("compound_id\tsmiles\tlogS\n")
        for i, (s, v) in enumerate(rows):
            f.write(f"CMP{start + i:06d}\t{s}\t{v:.2f}\n")


data = assay(3000, 1)
seen, uniq = set(), []
for s, v in data:
    if s not in seen:
        seen.add(s)
        uniq.append((s, v))
train, valid, test = uniq[:1500], uniq[1500:1900], uniq[1900:2400]
rng = np.random.default_rng(3)
for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    va, te = list(valid), list(test)
    if side == "bug":
        va = va[:80] + [train[i] for i in rng.choice(1500, 320, replace=False)]
        te = te[:100] + [train[i] for i in rng.choice(1500, 400, replace=False)]
        va = [va[i] for i in rng.permutation(len(va))]
        te = [te[i] for i in rng.permutation(len(te))]
    write(f"{side}/train.tsv", train, 1)
    write(f"{side}/valid.tsv", va, 20001)
    write(f"{side}/test.tsv", te, 40001)
