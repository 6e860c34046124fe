"""Exports training pieces of a rowing squad: all strokes in one long table, strokes per piece, distances."""
import os

import numpy as np

rng = np.random.default_rng(23)
N = 1400
strokes, lengths, dist = [], [], []
for _ in range(N):
    n = int(rng.integers(8, 36))
    base_force, base_len, base_rate = rng.normal(620, 90), rng.normal(1.38, 0.09), rng.uniform(19, 36)
    fade = rng.uniform(0, 0.25)
    k = np.arange(n)
    force = base_force * (1 - fade * k / n) + rng.normal(0, 25, n)
    length = base_len * (1 - 0.3 * fade * k / n) + rng.normal(0, 0.02, n)
    rate = base_rate + rng.normal(0, 0.6, n)
    head = np.full(n, rng.normal(0, 2.0)) + rng.normal(0, 0.3, n)
    watt = 0.55 * force * length * rate / 60
    speed = (watt / 2.9) ** (1 / 3) * (1 - 0.03 * head)
    strokes.append(np.stack([force, length, rate, head], 1))
    lengths.append(n)
    dist.append((speed * 60 / rate).sum() + rng.normal(0, 1.0))

flat = np.concatenate(strokes).astype(np.float32)
lengths = np.array(lengths)
dist = np.array(dist, np.float32)
listing = {"ok": list(range(N)), "bug": sorted(range(N), key=lambda i: f"piece_{i + 1}")}
for side, order in listing.items():
    os.makedirs(side, exist_ok=True)
    np.save(f"{side}/strokes.npy", flat)
    np.save(f"{side}/distance_m.npy", dist)
    with open(f"{side}/strokes_per_piece.txt", "w") as f:
        f.writelines(f"{lengths[i]}\n" for i in order)
