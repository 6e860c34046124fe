"""Writes bug/ and ok/: recorded strikes of church bells (band levels), the gauged wall thickness and the split."""
import csv
import json
import os

import numpy as np

BANDS = 12


def strikes(n_bells, per_bell, seed):
    shape = np.random.default_rng(1)
    lean = shape.normal(0, 1, (3, BANDS))
    rng = np.random.default_rng(seed)
    levels, rows = [], []
    for b in range(n_bells):
        profile = rng.normal(0, 1, 3)
        own = rng.normal(0, 1.3, BANDS)
        waist = 42 + 2.2 * profile[0] + 1.4 * profile[1] + 0.6 * profile[0] * profile[1] + rng.normal(0, 1.7)
        for s in range(per_bell):
            force = rng.normal(0, 0.3)
            levels.append(-30 + 1.6 * profile @ lean + own + force + rng.normal(0, 0.35, BANDS))
            rows.append([f"B{b:03d}", s, round(82 + force, 1), round(waist, 2)])
    return np.array(levels, dtype=np.float32), rows


def write(folder, key, seed=17):
    os.makedirs(folder, exist_ok=True)
    levels, rows = strikes(420, 5, seed)
    rng = np.random.default_rng(3)
    names = [key(r) for r in rows]
    unique = sorted(set(names))
    held = set(rng.permutation(unique)[:len(unique) // 4])
    order = rng.permutation(len(rows))
    files = {}
    for part in ("training", "validation"):
        files[part] = [j for j in order if (names[j] in held) == (part == "validation")]
        np.save(os.path.join(folder, f"{part}_levels.npy"), levels[files[part]])
        with open(os.path.join(folder, f"{part}_strikes.csv"), "w", newline="") as f:
            out = csv.writer(f)
            out.writerow(["bell", "strike", "clapper_db", "waist_mm"])
            out.writerows(rows[j] for j in files[part])
    with open(os.path.join(folder, "grid.json"), "w") as f:
        json.dump([{"reach": 10.0}, {"reach": 5.0}, {"reach": 2.5}, {"reach": 1.2}], f)


if __name__ == "__main__":
    write("ok", key=lambda r: r[0])
    write("bug", key=lambda r: f"{r[0]}-{r[1]}")
