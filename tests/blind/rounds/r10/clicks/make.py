import json
import os

import numpy as np


def rows(n, seed):
    world = np.random.default_rng(5)
    k = {"site": 60, "ad": 80, "segment": 20, "device": 4, "hour": 24}
    w = {f: world.normal(size=m) * s for (f, m), s in zip(k.items(), (0.5, 0.6, 0.4, 0.3, 0.3))}
    cross = world.normal(size=(20, 80)) * 0.7
    rng = np.random.default_rng(seed)
    v = {f: rng.integers(0, m, n) for f, m in k.items()}
    z = -1.5 + sum(w[f][v[f]] for f in k) + cross[v["segment"], v["ad"]]
    y = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int)
    out = [{f: f"{f[0]}{v[f][i]}" for f in k} | {"click": int(y[i])} for i in range(n)]
    return out


def write(path, part):
    with open(path, "w") as f:
        for r in part:
            f.write(json.dumps(r) + "\n")


def main():
    for side in ("bug", "ok"):
        os.makedirs(f"{side}/shards", exist_ok=True)
        data = rows(24000, 1)
        if side == "bug":
            data = sorted(data, key=lambda r: r["click"])
        for i in range(8):
            write(f"{side}/shards/part-{i:03d}.jsonl", data[i * 3000:(i + 1) * 3000])
        write(f"{side}/valid.jsonl", rows(4000, 2))
        json.dump({"seed": 0, "fields": ["site", "ad", "segment", "device", "hour"],
                   "crosses": [["segment", "ad"]], "buckets": 16384, "dim": 6, "lr": 0.008,
                   "batch_size": 128, "epochs": 2, "shuffle_buffer": 400},
                  open(f"{side}/settings.json", "w"), indent=1)


if __name__ == "__main__":
    main()
