import os
import numpy as np
rng = np.random.default_rng(12)
EP, L = 30, 80


def rollout():
    pos, vel = rng.uniform(-1, 1, 2), np.zeros(2)
    goal = rng.uniform(-1, 1, 2)
    o, a = [], []
    for t in range(L):
        if rng.random() < 0.12:
            goal = rng.uniform(-1, 1, 2)
        act = np.clip(4 * (goal - pos) - 1.5 * vel, -2, 2)
        o.append(np.concatenate([pos, vel, goal]))
        a.append(act + 0.03 * rng.standard_normal(2))
        vel = 0.9 * vel + 0.1 * act
        pos = pos + 0.1 * vel
    return np.array(o, np.float32), np.array(a, np.float32)


eps = [rollout() for _ in range(EP)]
obs, act = np.stack([e[0] for e in eps]), np.stack([e[1] for e in eps])
for d in ("ok", "bug"):
    os.makedirs(d, exist_ok=True)
    a = act if d == "ok" else np.concatenate([np.repeat(act[:, :1], 6, 1), act[:, :-6]], 1)
    np.savez_compressed(f"{d}/demos.npz", obs=obs, act=a)
