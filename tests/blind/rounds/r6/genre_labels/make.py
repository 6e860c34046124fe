import csv, os
import numpy as np
K = 6
for folder in ("bug", "ok"):
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(41)
    cent = rng.normal(0, 1.0, (K, 20))
    def part(name, n, base):
        y = rng.integers(0, K, n)
        x = cent[y] + rng.normal(0, 1.3, (n, 20))
        with open(f"{folder}/{name}.csv", "w", newline="") as f:
            w = csv.writer(f); w.writerow([f"mfcc{i:02d}" for i in range(20)] + ["genre_id"])
            for a, b in zip(x, y):
                g = (b + base) % K
                w.writerow([f"{v:.2f}" for v in a] + [int(g)])
    part("annotator_a", 650, 0)
    part("annotator_b", 450, 1 if folder == "bug" else 0)
    part("heldout", 300, 0)
