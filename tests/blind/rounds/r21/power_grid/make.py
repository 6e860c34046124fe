"""A transmission grid: bus table, line table, and which buses were overloaded in the stress test."""
import csv
import os

import numpy as np

rng = np.random.default_rng(515)
N, COMM = 900, 12
zone = rng.integers(0, COMM, N)
pos = rng.random((N, 2))
lines = set()
d = ((pos[:, None] - pos[None]) ** 2).sum(-1)
np.fill_diagonal(d, np.inf)
near = np.argsort(d, 1)
for i in range(N):
    for j in near[i, :rng.integers(2, 4)]:
        lines.add((min(i, j), max(i, j)))
lines = sorted((int(a), int(b)) for a, b in lines)
load = rng.gamma(2.0, 20, N)
generation = np.where(rng.random(N) < 0.25, rng.gamma(3, 45, N), 0.0)
kv = rng.choice([110, 220, 380], N, p=[0.5, 0.3, 0.2])
adj = np.zeros((N, N))
for a, b in lines:
    adj[a, b] = adj[b, a] = 1
deg = adj.sum(1)
net = (load - generation) / 40
pull = (adj @ net) / deg
second = (adj @ pull) / deg
stress = 0.5 * net + 1.6 * pull + 0.8 * second - 0.3 * (deg - deg.mean()) + rng.normal(0, 0.15, N)
over = (stress > np.quantile(stress, 0.55)).astype(int)
part = rng.choice(["train", "val"], N, p=[0.65, 0.35])

for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    with open(f"{side}/buses.csv", "w", newline="") as f:
        out = csv.writer(f)
        out.writerow(["load_mw", "generation_mw", "voltage_kv", "overloaded", "part"])
        for i in range(N):
            out.writerow([f"{load[i]:.1f}", f"{generation[i]:.1f}", kv[i], over[i], part[i]])
    shift = 1 if side == "bug" else 0
    with open(f"{side}/lines.csv", "w", newline="") as f:
        out = csv.writer(f)
        out.writerow(["from_bus", "to_bus"])
        for a, b in lines:
            if max(a, b) + 1 < N:
                out.writerow([a + shift, b + shift])
