import os
import numpy as np
here = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(15)
N, K = 400, 4
topic = rng.integers(0, K, N)
edges = set()
while len(edges) < 1000:
    a, b = rng.integers(0, N, 2)
    if a != b and (topic[a] == topic[b] or rng.random() < 0.12):
        edges.add((int(min(a, b)), int(max(a, b))))
centre = rng.normal(size=(K, 12)) * 0.55
x = (centre[topic] + rng.normal(size=(N, 12))).astype("float32")
part = np.where(rng.random(N) < 0.35, "train", "test")
for side in ("bug", "ok"):
    d = os.path.join(here, side)
    os.makedirs(d, exist_ok=True)
    order = sorted(range(N), key=str) if side == "bug" else list(range(N))
    np.save(os.path.join(d, "features.npy"), x[order])
    with open(os.path.join(d, "cites.txt"), "w") as f:
        f.writelines(f"{a} {b}\n" for a, b in sorted(edges))
    with open(os.path.join(d, "papers.txt"), "w") as f:
        f.writelines(f"{i} topic{topic[i]} {part[i]}\n" for i in range(N))
