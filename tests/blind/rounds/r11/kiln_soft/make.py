import csv, os
from datetime import datetime, timedelta
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(0)
N, W = 5200, 6


def ar(phi, n):
    x = np.zeros(n)
    for i in range(1, n):
        x[i] = phi * x[i - 1] + rng.normal() * np.sqrt(1 - phi ** 2)
    return x


S = np.stack([ar(p, N) for p in (0.5, 0.6, 0.4, 0.7)], 1)
y = 1.2 * S[:, 0] - 0.8 * np.tanh(S[:, 1]) + 0.6 * S[:, 2] * (S[:, 3] > 0) + 0.5 * np.roll(S[:, 0], 1)
y = y + 0.2 * rng.normal(size=N)
start = datetime(2025, 1, 6)
stamps = [start + timedelta(hours=i) for i in range(N)]
scale, off = np.array([35.0, 0.4, 12.0, 5.0]), np.array([880.0, 2.1, 140.0, 60.0])
X = off + scale * S
moist = 3.0 + 0.4 * y
cut = 4200
for name, shift in (("ok", 0), ("bug", 2)):
    d = os.path.join(HERE, name)
    os.makedirs(d, exist_ok=True)
    with open(os.path.join(d, "sensors.csv"), "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["time", "burner_c", "draft_mbar", "feed_tph", "fan_hz"])
        for t, r in zip(stamps[:cut], X[:cut]):
            w.writerow([t.strftime("%Y-%m-%d %H:%M")] + [f"{v:.3f}" for v in r])
    with open(os.path.join(d, "lab.csv"), "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["time", "moisture_pct"])
        for t, v in zip(stamps[:cut], moist[:cut]):
            w.writerow([(t + timedelta(hours=shift)).strftime("%Y-%m-%d %H:%M"), f"{v:.3f}"])
    ends = np.arange(cut + W, N)
    win = np.stack([X[e - W + 1:e + 1] for e in ends]).astype(np.float32)
    np.savez(os.path.join(d, "acceptance.npz"), windows=win, moisture=moist[ends].astype(np.float32))
