"""hourly temperature, wind and humidity at six stations, one csv per station and period"""
import csv, json
import numpy as np

r = np.random.default_rng(88)
NAMES = ["harbour", "airport", "valley", "ridge", "campus", "lakeside"]
H = 24 * 190
h = np.arange(H)
front = np.zeros(H)
cloud = np.zeros(H)
for i in range(1, H):
    front[i] = 0.985 * front[i - 1] + r.normal(0, 0.45)
    cloud[i] = 0.97 * cloud[i - 1] + r.normal(0, 0.25)
sun = np.clip(np.sin(2 * np.pi * (h % 24 - 6) / 24), 0, None) * (1 - 0.6 / (1 + np.exp(-cloud)))
warmth = np.zeros(H)
for i in range(1, H):
    warmth[i] = 0.8 * warmth[i - 1] + 1.6 * sun[i]
gain = dict(zip(NAMES, [0.7, 1.2, 1.6, 0.9, 1.3, 0.8]))
data = {}
for k in NAMES:
    temp = 12 + front + gain[k] * warmth + r.normal(0, 0.25, H) - (2 if k == "ridge" else 0)
    wind = np.abs(3 + 0.8 * cloud + r.normal(0, 0.8, H))
    rh = np.clip(85 - 3.2 * gain[k] * warmth + 5 * cloud + r.normal(0, 3, H), 15, 100)
    data[k] = (temp, wind, rh)
SPLIT = 24 * 140
for side in ("bug", "ok"):
    for part, (a, b) in (("train", (24, SPLIT)), ("test", (SPLIT, H - 24))):
        for k in NAMES:
            late = 7 if side == "bug" and part == "train" and k in ("airport", "campus", "ridge") else 0
            with open(f"{side}/{k}_{part}.csv", "w", newline="") as f:
                w = csv.writer(f)
                w.writerow(["hour", "temp_c", "wind_ms", "rh_pct"])
                for i in range(a, b):
                    t, v, q = (s[i - late] for s in data[k])
                    w.writerow([i, f"{t:.1f}", f"{v:.1f}", f"{q:.0f}"])
    json.dump({"stations": NAMES, "target": "valley", "neighbours": [n for n in NAMES if n != "valley"], "epochs": 15, "lr": 0.002}, open(f"{side}/network.json", "w"), indent=1)
