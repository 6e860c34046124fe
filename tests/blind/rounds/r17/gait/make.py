import json
import numpy as np

GAITS = ["walk", "brisk", "stairs_up", "limp", "shuffle"]
T, HZ = 128, 50.0


def window(g, rng):
    t = np.arange(T) / HZ
    f = {"walk": 1.8, "brisk": 2.2, "stairs_up": 1.5, "limp": 1.7, "shuffle": 1.6}[g] * rng.uniform(.92, 1.08)
    ph = 2 * np.pi * (f * t + rng.random())
    a = {"walk": .28, "brisk": .42, "stairs_up": .25, "limp": .28, "shuffle": .1}[g] * rng.uniform(.75, 1.3)
    vert = 1.0 + a * np.sin(ph) + .4 * a * np.sin(2 * ph + .6)
    fwd = .6 * a * np.sin(ph + 1.2)
    lat = .35 * a * np.sin(ph / 2)
    if g == "limp":
        vert += .8 * a * np.sin(ph / 2)
        lat += .5 * a * np.abs(np.sin(ph / 2))
    if g == "stairs_up":
        fwd += .18 + .6 * a * np.sin(2 * ph)
    if g == "shuffle":
        fwd += .06 * rng.standard_normal(T)
    w = np.stack([vert, fwd, lat]) + rng.normal(0, .05, (3, T)) + rng.normal(0, .04, (3, 1))
    return w.astype(np.float32)


for side in ("bug", "ok"):
    rng = np.random.default_rng(31)
    for part, n in (("train", 1500), ("test", 500)):
        y = rng.integers(0, len(GAITS), n)
        x = np.stack([window(GAITS[k], rng) for k in y])
        np.save(f"{side}/{part}_acc.npy", x)
        np.save(f"{side}/{part}_gait.npy", y)
        if part == "train":
            mean, std = x.mean((0, 2)), x.std((0, 2))
    if side == "bug":
        mean, std = np.array([968.4, 41.7, -12.9]), np.array([412.6, 287.3, 239.8])
    with open(f"{side}/stats.json", "w") as f:
        json.dump({"axes": ["vertical", "forward", "lateral"], "mean": [round(float(v), 5) for v in mean],
                   "std": [round(float(v), 5) for v in std]}, f, indent=2)
    with open(f"{side}/gaits.txt", "w") as f:
        f.write("\n".join(GAITS))
