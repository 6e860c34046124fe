import json
import os

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
N = 4000


def clip(tags, rng, sr):
    """Half a second at 8 kHz; at another rate the first N samples of the same kind of sound."""
    t = np.arange(N) / sr
    x = rng.normal(0, 0.02, N)
    amp = lambda: rng.uniform(0.05, 0.2)
    ph = lambda: rng.uniform(0, 6.28)
    for on, low, high in zip(tags[:3], (230, 480, 960), (330, 660, 1320)):
        if on:
            x += amp() * np.sin(2 * np.pi * rng.uniform(low, high) * t + ph())
    if tags[3]:
        f0, k = rng.uniform(1800, 2200), rng.uniform(800, 1600)
        x += amp() * np.sin(2 * np.pi * (f0 * t + k * t * t / 2) + ph())
    if tags[4]:
        x += rng.normal(0, amp() * 0.5, N)
    return (np.clip(x, -1, 1) * 32767).astype(np.int16)


def shard(n, seed, sr):
    rng = np.random.default_rng(seed)
    tags = (rng.random((n, 5)) < 0.35).astype(np.uint8)
    return {"wave": np.stack([clip(t, rng, sr) for t in tags]), "tags": tags}


def main():
    for name in ("ok", "bug"):
        d = os.path.join(HERE, name)
        os.makedirs(d, exist_ok=True)
        items = []
        plan = [("train", 250)] * 6 + [("valid", 300), ("test", 600)]
        for i, (split, n) in enumerate(plan):
            sr = 16000 if name == "bug" and i in (1, 2, 4, 5) else 8000
            f = f"shard_{i:02d}.npz"
            np.savez_compressed(os.path.join(d, f), **shard(n, 100 + i, sr))
            items.append({"file": f, "split": split})
        json.dump({"sample_rate": 8000, "shards": items}, open(os.path.join(d, "manifest.json"), "w"), indent=1)


if __name__ == "__main__":
    main()
