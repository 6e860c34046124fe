import csv
import os

import numpy as np

rng = np.random.default_rng(31)
N, GAP = 3600, 90
MOTIF = "GGATCACTTAGC"
COMP = str.maketrans("ACGT", "TGCA")


def rc(s):
    return s.translate(COMP)[::-1]


def noisy(m):
    return "".join(b if rng.random() > 0.10 else "ACGT"[rng.integers(4)] for b in m)


genome = list("".join(rng.choice(list("ACGT"), N * GAP)))
rows = []
for i in range(N):
    centre = i * GAP + GAP // 2
    strand = "+-"[rng.integers(2)]
    label = int(rng.integers(2))
    kind = "sense" if label else ("antisense" if rng.random() < 0.75 else "none")
    if kind != "none":
        m = noisy(MOTIF)
        if kind == "antisense":
            m = rc(m)
        if strand == "-":
            m = rc(m)
        at = centre - 6 + int(rng.integers(-12, 13))
        genome[at:at + len(m)] = list(m)
    part = "train" if i % 10 < 7 else ("valid" if i % 10 == 7 else "test")
    rows.append([f"site{i:05d}", "chrS", centre, strand, part, label])

for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    with open(f"{side}/genome.fa", "w") as f:
        f.write(">chrS\n")
        s = "".join(genome)
        for j in range(0, len(s), 80):
            f.write(s[j:j + 80] + "\n")
    with open(f"{side}/sites.csv", "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["id", "chrom", "centre", "strand", "part", "bound"])
        for r in rows:
            w.writerow(r if side == "ok" else r[:3] + ["+"] + r[4:])
