import csv
import json
import os

import numpy as np
from scipy.ndimage import gaussian_filter

N, S = 560, 24


def scene(rng):
    base = gaussian_filter(rng.normal(size=(S, S)), 2) * 1.2
    def blocks(k):
        out = np.zeros((S, S))
        for _ in range(k):
            h, w = rng.integers(4, 9, 2)
            r, c = rng.integers(0, S - h), rng.integers(0, S - w)
            out[r:r + h, c:c + w] = rng.uniform(0.7, 1.1) * rng.choice([-1, 1])
        return out
    old, new = blocks(rng.integers(1, 4)), blocks(rng.integers(0, 3))
    mask = (new != 0) & (np.abs(new - old) > 0.3)
    before = base + old + rng.normal(size=(S, S)) * 0.08
    after = np.where(mask, base + new, base + old) * rng.uniform(0.85, 1.15) + rng.uniform(-0.2, 0.2) \
        + rng.normal(size=(S, S)) * 0.08
    q = lambda a: ((np.clip(a, -2, 2) + 2) / 4 * 255).astype(np.uint8)
    return q(before), q(after), mask.astype(np.uint8)


def main():
    rng = np.random.default_rng(0)
    b, a, m = (np.stack(v) for v in zip(*[scene(rng) for _ in range(N)]))
    names = [f"tile_{i}" for i in range(N)]
    lexical = {n: k for k, n in enumerate(sorted(names[:420]))}
    for side in ("bug", "ok"):
        os.makedirs(side, exist_ok=True)
        np.save(f"{side}/before.npy", b); np.save(f"{side}/after.npy", a); np.save(f"{side}/masks.npy", m)
        with open(f"{side}/index.csv", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["tile", "split", "before_row", "after_row", "mask_row"])
            for i, n in enumerate(names):
                train = i < 420
                # mask rows counted in a listing sorted by name, the stacks are in numeric order
                row = lexical[n] if side == "bug" and train else i
                w.writerow([n, "train" if train else "valid", i, i, row])
        json.dump({"seed": 0, "batch_size": 14, "lr": 0.006, "epochs": 4}, open(f"{side}/opts.json", "w"))


if __name__ == "__main__":
    main()
