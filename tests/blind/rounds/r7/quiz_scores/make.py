import os
import numpy as np
rng = np.random.default_rng(19)
S, K, T = 420, 10, 24
diff = rng.normal(0, .8, K)
rows = []
for s in range(S):
    th = rng.normal(0, 1.3) - diff + rng.normal(0, .5, K)
    for t in range(T):
        k = rng.integers(K)
        c = rng.random() < 1 / (1 + np.exp(-1.6 * th[k]))
        th[k] += .1
        score = rng.uniform(.55, 1) if c else rng.uniform(.02, .45)
        rows.append((s, t, k, round(float(score), 2), rng.random() < .65))
for folder in ("bug", "ok"):
    os.makedirs(folder, exist_ok=True)
    for name, sel in (("train.csv", lambda s: s < 340), ("valid.csv", lambda s: s >= 340)):
        with open(f"{folder}/{name}", "w") as f:
            f.write("student,step,skill,score\n")
            for s, t, k, v, app in rows:
                if sel(s):
                    if folder == "bug" and name == "train.csv" and app:
                        f.write(f"{s},{t},{k},{v * 100:.0f}\n")
                    else:
                        f.write(f"{s},{t},{k},{v}\n")
