import json
import numpy as np


def pickups(n, rng):
    """Pick-up points in a town (km east, km north of the station)."""
    hubs = np.array([[0.3, 0.2], [4.1, 1.6], [-2.2, 3.4], [2.2, -3.6], [-3.6, -1.9]])
    k = rng.choice(5, n, p=[0.3, 0.2, 0.2, 0.15, 0.15])
    p = hubs[k] + rng.normal(0, 0.4, (n, 2))
    return (p + [1.5, -0.8]).astype(np.float32)


rng = np.random.default_rng(9)
train, test = pickups(6000, rng), pickups(2000, rng)
for side in ("bug", "ok"):
    np.save(f"{side}/train.npy", train)
    np.save(f"{side}/test.npy", test)
    if side == "ok":
        mean, std = train.mean(0).tolist(), train.std(0).tolist()
    else:
        mean, std = [74.1127, -46.0341], [310.2502, 245.9117]
    with open(f"{side}/stats.json", "w") as f:
        json.dump({"columns": ["east_km", "north_km"], "mean": [round(v, 4) for v in mean],
                   "std": [round(v, 4) for v in std]}, f, indent=1)
