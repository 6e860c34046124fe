import csv, os
import numpy as np
from train import CLASSES, band_energies

here = os.path.dirname(os.path.abspath(__file__))
r = np.random.default_rng(12)
N, L = 350, 256
t = np.arange(L)
labels = r.integers(0, 5, N)
waves = []
for k in labels:
    f = r.uniform(0.9, 1.1)
    n = r.normal(0, 1, L)
    if k == 0:
        w = np.sin(2 * np.pi * 0.21 * f * t) * np.exp(-t / 90)
    elif k == 1:
        w = np.sign(np.sin(2 * np.pi * 0.04 * f * t)) * 0.6
    elif k == 2:
        w = np.sin(2 * np.pi * (0.30 * f * t + 3 * np.sin(t / 30)))
    elif k == 3:
        w = np.diff(n, prepend=0) * 0.6
    else:
        w = np.zeros(L)
        for s in r.integers(0, L - 12, 4):
            w[s:s + 12] += r.normal(0, 1.5, 12) * np.exp(-np.arange(12) / 4)
    waves.append(40 * r.uniform(0.6, 1.2) * w + 16 * n)
waves = np.clip(np.stack(waves), -127, 127).astype(np.int8)
names = [f"{r.integers(0, 16 ** 6):06x}.wav" for _ in range(N)]
feats = np.stack([band_energies(w.astype(np.float32)) for w in waves]).astype(np.float16)
for name in ("bug", "ok"):
    os.makedirs(f"{here}/{name}/cache", exist_ok=True)
    np.save(f"{here}/{name}/waves.npy", waves)
    with open(f"{here}/{name}/clips.csv", "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["file", "event", "split"])
        w.writerows([names[i], CLASSES[labels[i]], "train" if i < 250 else "val"] for i in range(N))
    order = np.argsort(names) if name == "bug" else np.arange(N)
    np.save(f"{here}/{name}/cache/bands.npy", feats[order])
