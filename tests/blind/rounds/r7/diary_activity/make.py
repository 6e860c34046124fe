import csv
from datetime import datetime, timedelta, timezone
import numpy as np

ACT = ["rest", "desk", "walk", "run", "chores"]
r = np.random.default_rng(5)
start = datetime(2023, 6, 5, 0, 0, tzinfo=timezone.utc)
MEAN = np.random.default_rng(6).normal(size=(5, 6)) * 1.1
bouts, t, last, labels = [], 0, -1, []
N = 6 * 1440
while t < N:
    k = int(r.choice([i for i in range(5) if i != last]))
    n = int(r.integers(8, 40))
    bouts.append((t, ACT[k]))
    labels += [k] * n
    t, last = t + n, k
labels = np.array(labels[:N])[::2]
unix = np.array([int(start.timestamp()) + 60 * m for m in range(0, N, 2)])
feats = (MEAN[labels] + r.normal(size=(len(labels), 6))).astype(np.float16)
for side, shift in (("ok", 0), ("bug", 2)):          # wearer lives at UTC+2
    np.savez_compressed(f"{side}/sensor.npz", unix_s=unix, features=feats)
    with open(f"{side}/diary.csv", "w", newline="") as fh:
        w = csv.writer(fh)
        w.writerow(["start", "activity"])
        for m, a in bouts:
            w.writerow([(start + timedelta(minutes=m, hours=shift)).strftime("%Y-%m-%d %H:%M"), a])
