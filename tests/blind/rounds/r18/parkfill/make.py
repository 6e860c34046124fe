import json
import os
import numpy as np

rng = np.random.default_rng(62)
LOTS = {"Station": 420, "Market": 180, "Hospital": 350, "Stadium": 900, "Campus": 260}
DAYS = 42
H = DAYS * 24
t = np.arange(H)
hour, dow = t % 24, (t // 24) % 7
prof = {"Station": (8.5, 4.5, 0.8, 0.3), "Market": (13, 3, 0.75, 0.9), "Hospital": (12, 5, 0.85, 0.6), "Stadium": (19, 2.5, 0.35, 0.8),
        "Campus": (11.5, 3.5, 0.9, 0.1)}
occ = np.zeros((H, len(LOTS)))
rain = (rng.random(DAYS) < 0.3)[t // 24]
for j, lot in enumerate(LOTS):
    c, w, a, we = prof[lot]
    e = 0.0
    for i in range(H):
        e = 0.8 * e + rng.normal(0, 0.035)
        lvl = a * (we if dow[i] >= 5 else 1) * np.exp(-((hour[i] - c) / w) ** 2) * (1.12 if rain[i] else 1)
        occ[i, j] = np.clip(0.08 + lvl + e, 0, 1)
# rows ordered by time, then lot; the target is the occupancy two hours ahead
rows, feats = [], []
for i in range(24, H - 2):
    for j, lot in enumerate(LOTS):
        rows.append(f"2024-{3 + (i // 24) // 30:02d}-{(i // 24) % 30 + 1:02d} {hour[i]:02d}:00,{lot},{occ[i + 2, j]:.4f}")
        one = [float(j == k) for k in range(len(LOTS))]
        a = 2 * np.pi * ((hour[i] + 2) % 24) / 24
        feats.append(one + [np.sin(a), np.cos(a), np.sin(2 * a), np.cos(2 * a), float(dow[i] >= 5), float(rain[i]),
                            occ[i, j], occ[i - 1, j], occ[i, j] - occ[i - 3, j], occ[i - 22, j]])
feats = np.array(feats, np.float32)
n = 5 * 24 * 30
lot_first = np.argsort(np.arange(n) % 5, kind="stable")
for side in ("bug", "ok"):
    os.makedirs(f"{side}/cache", exist_ok=True)
    for name, sl in (("train", slice(0, n)), ("test", slice(n, None))):
        open(f"{side}/{name}.csv", "w").write("\n".join(["time,lot,occupancy_2h"] + rows[sl]) + "\n")
        f = feats[sl]
        if side == "bug" and name == "train":
            f = f[lot_first]
        np.save(f"{side}/cache/{name}_features.npy", f)
    json.dump({"capacity": LOTS, "version": 3}, open(f"{side}/lots.json", "w"))
