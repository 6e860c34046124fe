import csv
import os
import sys

import numpy as np

PLACES = 40
MONTHS = ["2021-01", "2021-02", "2021-03", "2021-04"]


def world():
    rng = np.random.default_rng(1)
    xy = rng.uniform(0, 10, (PLACES, 2))
    pull = rng.gamma(1.0, 1.0, PLACES)
    dist = np.linalg.norm(xy[:, None] - xy[None], axis=2)
    p = pull[None] * np.exp(-dist / 1.0)
    np.fill_diagonal(p, 0)
    return p / p.sum(1, keepdims=True)


def trips(rng, n):
    move = world()
    out = []
    for _ in range(n):
        here = int(rng.integers(PLACES))
        seq = [here]
        for _ in range(int(rng.integers(6, 12))):
            if len(seq) > 2 and rng.random() < 0.2:
                here = seq[0] if here != seq[0] else seq[1]
            else:
                here = int(rng.choice(PLACES, p=move[here]))
            seq.append(here)
        out.append(seq)
    return out


def save(path, rows, first):
    with open(path, "w", newline="") as fh:
        w = csv.writer(fh)
        w.writerow(["trip", "step", "place"])
        for i, seq in enumerate(rows):
            for s, place in enumerate(seq):
                w.writerow([first + i, s, place])


def write(dest, mode):
    os.makedirs(os.path.join(dest, "data"), exist_ok=True)
    rng = np.random.default_rng(2)
    for k, month in enumerate(MONTHS):
        rows = trips(rng, 300)
        save(os.path.join(dest, "data", f"checkins_{month}.csv"), rows, 10000 * (k + 1))
        if mode == "bug":
            order = np.random.default_rng(k).permutation(len(rows))
            save(os.path.join(dest, "data", f"checkins_{month}_export2.csv"), [rows[i] for i in order], 10000 * (k + 11))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        write(sys.argv[1], sys.argv[2])
    else:
        here = os.path.dirname(os.path.abspath(__file__))
        for mode in ("bug", "ok"):
            write(os.path.join(here, mode), mode)
