import json
import os
import numpy as np

rng = np.random.default_rng(4)
LINKS = np.array([1.0, 0.8])


def tip(q):
    a, b = q[..., 0], q[..., 0] + q[..., 1]
    return np.stack([LINKS[0] * np.cos(a) + LINKS[1] * np.cos(b), LINKS[0] * np.sin(a) + LINKS[1] * np.sin(b)], -1)


obs, act, ep = [], [], []
for episode in range(90):
    q = rng.uniform([-1.5, 0.4], [1.5, 2.4])
    goal_q = rng.uniform([-1.5, 0.4], [1.5, 2.4])
    goal = tip(goal_q)
    for t in range(25):
        v = np.clip(4.0 * (goal_q - q), -2.0, 2.0) + rng.normal(0, 0.03, 2)
        obs.append(np.concatenate([np.sin(q), np.cos(q), tip(q), goal]))
        act.append(v)
        ep.append(episode)
        q = q + 0.05 * v
for folder, limit in (("ok", 2.2), ("bug", 0.22)):
    os.makedirs(folder, exist_ok=True)
    np.savez_compressed(f"{folder}/demos.npz", obs=np.float32(obs), act=np.float32(act), episode=np.int16(ep))
    json.dump({"hidden": 64, "lr": 0.002, "batch_size": 128, "epochs": 24, "action_limit": limit, "seed": 0},
              open(f"{folder}/policy.json", "w"), indent=2)
