from pathlib import Path
import numpy as np

HERE = Path(__file__).resolve().parent

for side in ("bug", "ok"):
    rng = np.random.default_rng(81)
    out = HERE / side
    out.mkdir(exist_ok=True)
    n, spare = 400, 8
    zone = rng.integers(0, 5, n)
    feats = np.eye(5)[zone] * 1.0 + 1.1 * rng.normal(size=(n, 5))
    feats = np.concatenate([feats, rng.normal(size=(n, 3))], 1)
    edges = set()
    while len(edges) < 1600:
        a, b = rng.integers(0, n, 2)
        if a != b and (zone[a] == zone[b] or rng.random() < 0.03):
            edges.add((int(min(a, b)), int(max(a, b))))
    # spare substations at the end of the list are not connected yet
    feats = np.concatenate([feats, rng.normal(size=(spare, 8))])
    zone = np.concatenate([zone, rng.integers(0, 5, spare)])
    part = np.array(["train"] * 100 + ["test"] * 300)[rng.permutation(n)].tolist() + ["none"] * spare
    first = 1 if side == "bug" else 0
    with open(out / "lines.txt", "w") as f:
        for a, b in sorted(edges):
            f.write(f"{a + first} {b + first}\n")
    with open(out / "stations.csv", "w") as f:
        for i in range(n + spare):
            f.write(",".join(f"{v:.3f}" for v in feats[i]) + f",{zone[i]},{part[i]}\n")
