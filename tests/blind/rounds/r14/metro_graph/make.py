"""Stations, links between them, and which stations are crowded."""
import csv
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).parent


def write(folder, broken):
    rng = np.random.default_rng(37)
    folder.mkdir(exist_ok=True)
    n, n_comm = 800, 8
    comm = rng.integers(0, n_comm, n)
    edges = set()
    for _ in range(n * 5):
        a = int(rng.integers(n))
        same = np.flatnonzero(comm == comm[a])
        b = int(rng.choice(same)) if rng.random() < 0.85 else int(rng.integers(n))
        if a != b:
            edges.add((min(a, b), max(a, b)))
    hint = rng.normal(size=(n_comm, 6))
    x = hint[comm] * 0.55 + rng.normal(size=(n, 6))
    first = 1 if broken else 0
    with open(folder / "stations.csv", "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["station", "f0", "f1", "f2", "f3", "f4", "f5", "district"])
        for i in range(n):
            w.writerow([i] + [f"{v:.4f}" for v in x[i]] + [comm[i]])
    with open(folder / "links.csv", "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["a", "b"])
        for a, b in sorted(edges):
            w.writerow([a + first, b + first])


for name in ("bug", "ok"):
    write(HERE / name, name == "bug")
