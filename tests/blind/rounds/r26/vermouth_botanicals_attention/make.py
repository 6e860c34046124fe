import json
import os

import numpy as np

rng = np.random.default_rng(2024)
ONSET = ["ar", "bel", "cas", "dra", "el", "fen", "gen", "hys", "ir", "jun", "kal", "la", "mar", "nig", "or", "per",
         "qua", "ros", "sal", "tan", "um", "ver", "wor", "xan", "yar", "zed"]
MID = ["ta", "lo", "mi", "ne", "ru", "si", "vo", "da", "ga"]
END = ["lla", "ris", "num", "ica", "tus", "ola"]
pool = sorted({o + m + e for o in ONSET for m in MID for e in END})
pick = [str(n) for n in rng.choice(pool, 300, replace=False)]

catalogue_2019 = sorted(pick[:280])
catalogue_2023 = sorted(pick[20:])
shared = sorted(set(catalogue_2019) & set(catalogue_2023))
DIM = 14
profile = {n: rng.normal(size=DIM) for n in pick}
mix = rng.normal(size=(DIM, 3)) / np.sqrt(DIM)


def bitterness(names, grams):
    p = np.stack([profile[n] for n in names])
    s = p @ mix
    force = grams * np.exp(0.5 * s[:, 1])
    bitter = (force * np.maximum(0, s[:, 0] + 0.4)).sum()
    sweet = (grams * np.maximum(0, s[:, 2])).sum()
    return 14 * np.log1p(bitter) - 5 * np.log1p(sweet) + rng.normal(0, 0.5)


def blends(n):
    out = []
    for _ in range(n):
        k = int(rng.integers(4, 11))
        names = [str(v) for v in rng.choice(shared, k, replace=False)]
        grams = rng.gamma(2.0, 0.8, k).round(2) + 0.05
        out.append({"botanicals": names, "g_per_l": [round(float(g), 2) for g in grams],
                    "bitterness": round(float(bitterness(names, grams)), 2)})
    return out


train, valid = blends(1500), blends(400)
vectors = np.stack([profile[n] for n in catalogue_2023]).astype(np.float32)
for side, names in (("ok", catalogue_2023), ("bug", catalogue_2019)):
    os.makedirs(side, exist_ok=True)
    np.save(f"{side}/aroma_vectors.npy", vectors)
    with open(f"{side}/vocab.json", "w") as f:
        json.dump({n: i for i, n in enumerate(names)}, f, indent=0)
    for part, rows in (("train", train), ("valid", valid)):
        with open(f"{side}/blends_{part}.jsonl", "w") as f:
            f.writelines(json.dumps(r) + "\n" for r in rows)
