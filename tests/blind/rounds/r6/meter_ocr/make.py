import csv, os
import numpy as np
G = ["111101101101111", "010110010010111", "111001111100111", "111001111001111", "101101111001001",
     "111100111001111", "111100111101111", "111001010010010", "111101111101111", "111101111001111"]
rng = np.random.default_rng(9)
n = 900
texts, imgs = [], np.zeros((n, 7, 18), np.float32)
for i in range(n):
    t = "".join(map(str, rng.integers(0, 10, 4)))
    for j, c in enumerate(t):
        y, x = rng.integers(0, 3), 1 + 4 * j + rng.integers(0, 2)
        imgs[i, y:y + 5, x:x + 3] = np.array([int(k) for k in G[int(c)]]).reshape(5, 3)[:, :18 - x]
    texts.append(t)
imgs = np.clip(imgs + rng.normal(0, .2, imgs.shape), 0, 1)
for folder in ("bug", "ok"):
    os.makedirs(folder, exist_ok=True)
    np.savez_compressed(f"{folder}/crops.npz", images=(imgs * 15).round().astype(np.uint8))
    lab = list(texts)
    if folder == "bug":   # one reading lost near the top, the list moved up
        lab = lab[:31] + lab[32:] + [lab[31]]
    with open(f"{folder}/readings.csv", "w", newline="") as f:
        w = csv.writer(f); w.writerow(["row", "reading"])
        w.writerows(enumerate(lab))
