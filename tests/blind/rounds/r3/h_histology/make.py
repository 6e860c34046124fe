import numpy as np

rng = np.random.default_rng(0)
S = 16
yy, xx = np.mgrid[:S, :S]


def patch(k):
    ph, n = rng.uniform(0, 6), rng.standard_normal((S, S))
    wave = [np.sin(1.5 * xx + ph), np.sin(1.5 * yy + ph), np.sin(0.5 * (xx + yy) + ph), np.sin(1.1 * (xx - yy) + ph)][k]
    return (128 + 30 * wave + 20 * n).clip(0, 255).astype(np.uint8)


def shard(labels):
    return np.stack([patch(k) for k in labels]), np.array(labels, np.uint8)


shards = {f"shard_{k}.npz": shard([k] * 110) for k in range(4)}
shards["val.npz"] = shard(list(rng.integers(0, 4, 200)))
for d in ("ok", "bug"):
    for name, (x, y) in shards.items():
        np.savez_compressed(f"{d}/{name}", image=x, label=y)
    open(f"{d}/val_manifest.txt", "w").write("val.npz\n")
open("ok/manifest.txt", "w").write("shard_0.npz\nshard_1.npz\nshard_2.npz\nshard_3.npz\n")
open("bug/manifest.txt", "w").write("shard_0.npz\nshard_1.npz\nshard_1.npz\nshard_3.npz\n")
