import json
import numpy as np

N = 48


def shape(k, r):
    u, v = r.uniform(0, 2 * np.pi, N), r.uniform(-1, 1, N)
    if k == 0:                                    # rod
        p = np.stack([0.35 * np.cos(u), 0.35 * np.sin(u), v], 1)
    elif k == 1:                                  # cone
        h = np.sqrt((v + 1) / 2)
        p = np.stack([0.7 * h * np.cos(u), 0.7 * h * np.sin(u), 1 - 2 * h], 1)
    elif k == 2:                                  # washer
        q = r.uniform(0.55, 1, N)
        p = np.stack([q * np.cos(u), q * np.sin(u), 0.12 * v], 1)
    elif k == 3:                                  # dumbbell
        p = 0.45 * r.normal(size=(N, 3)) / 2 + np.array([0, 0, 0.75]) * np.sign(v)[:, None]
    else:                                         # L bracket
        p = np.stack([v, r.uniform(-0.4, 0.4, N), np.full(N, -0.5)], 1)
        side = r.random(N) < 0.5
        p[side, 0], p[side, 2] = -1, r.uniform(-0.5, 1, side.sum())
    return p * r.uniform(0.75, 1.25, 3) * 40 + r.normal(size=(N, 3)) * 1.5 + r.normal(size=3) * 20


def draw(per, seed):
    r = np.random.default_rng(seed)
    y = np.repeat(np.arange(5), per)
    return np.stack([shape(k, r) for k in y]).astype(np.float16), y.astype(np.int8)


for side, sigma in (("ok", 0.02), ("bug", 2.0)):
    for name, per, seed in (("train", 80, 1), ("val", 30, 2)):
        p, y = draw(per, seed)
        np.savez_compressed(f"{side}/{name}.npz", points=p, label=y)
    cfg = {"seed": 5, "n_classes": 5, "lr": 0.002, "epochs": 30, "batch_size": 32,
           "augment": {"jitter_sigma": sigma, "max_yaw_deg": 30}}
    json.dump(cfg, open(f"{side}/config.json", "w"), indent=1)
