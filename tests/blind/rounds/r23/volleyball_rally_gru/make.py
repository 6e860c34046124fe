import os
import numpy as np

ROOT = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(252)
N, T = 2400, 26
touches = np.zeros((N, T, 6), dtype=np.float32)
length = np.zeros(N, dtype=np.int64)
home_wins = np.zeros(N, dtype=np.int64)
for i in range(N):
    team = int(rng.integers(0, 2))
    k = int(np.clip(rng.poisson(11) + 2, 4, T))
    q = rng.normal(0, 1)
    for t in range(k):
        kind = 0 if t == 0 else int(rng.integers(1, 4))          # serve, pass, set, attack
        q = 0.5 * q + rng.normal(0, 1)
        speed = 14 + 4 * (kind == 3) + 6 * (kind == 0) + 2.5 * q
        touches[i, t] = (team, rng.normal(0, 1.6) + (4 if team else -4), rng.uniform(0, 9),
                         2.4 + 0.3 * (kind == 3) + rng.normal(0, 0.15), speed, kind)
        if t < k - 1 and rng.random() < 0.45:
            team = 1 - team
    good = q + 0.5 * (kind == 3) - 0.2 + rng.normal(0, 0.3) > 0
    length[i] = k
    home_wins[i] = team if good else 1 - team

CONF = """# rally outcome model
seed = 33
hidden = 32
batch = 48
epochs = 10
lr = 0.004
val_fraction = 0.25
"""
for side in ("bug", "ok"):
    d = os.path.join(ROOT, side)
    os.makedirs(d, exist_ok=True)
    np.save(os.path.join(d, "touches.npy"), touches)
    np.save(os.path.join(d, "home_wins.npy"), home_wins)
    np.save(os.path.join(d, "lengths.npy"), length if side == "ok" else (length + 1) // 2)
    with open(os.path.join(d, "params.toml"), "w") as f:
        f.write(CONF)
