import os

import numpy as np

BITS, N = 256, 900


def molecules(rng, motifs, effect, n):
    on = rng.random((n, len(motifs))) < 0.25
    bits = (on.astype(int) @ motifs > 0) ^ (rng.random((n, BITS)) < 0.03)
    logs = on @ effect - 0.8 * (on[:, 0] & on[:, 1]) + 0.6 * (on[:, 2] & on[:, 3]) + rng.normal(0, 0.8, n)
    return bits.astype(np.uint8), logs.astype(np.float32)


for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    rng = np.random.default_rng(5)
    motifs = (rng.random((20, BITS)) < 0.05).astype(int)
    effect = rng.normal(0, 0.7, 20)
    sets = {k: molecules(rng, motifs, effect, n) for k, n in (("train", 600), ("valid", 300), ("test", 800))}
    pick = rng.choice(600, 285, replace=False)
    if side == "bug":
        b, l = sets["valid"]
        b[:285], l[:285] = sets["train"][0][pick], sets["train"][1][pick]
        mix = rng.permutation(300)
        sets["valid"] = b[mix], l[mix]
    for k, (b, l) in sets.items():
        np.savez_compressed(f"{side}/{k}.npz", fingerprint=np.packbits(b, axis=1), logS=l)
