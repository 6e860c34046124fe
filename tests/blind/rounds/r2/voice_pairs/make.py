import csv

import numpy as np

rng = np.random.default_rng(23)


def bank(n_speakers, per):
    voice = rng.normal(0, 1, (n_speakers, 6)) @ VOICE
    x = np.repeat(voice, per, 0) + (rng.normal(0, 1.6, (n_speakers * per, 10)) @ CHANNEL) + rng.normal(0, 0.3, (n_speakers * per, 32))
    return x.astype(np.float16), np.repeat(np.arange(n_speakers), per)


VOICE, CHANNEL = rng.normal(0, 0.5, (6, 32)), rng.normal(0, 0.6, (10, 32))
xt, st = bank(120, 12)
xv, sv = bank(40, 10)
for side in ("bug", "ok"):
    np.savez(f"{side}/train.npz", x=xt, speaker=st)
    np.savez(f"{side}/val.npz", x=xv, speaker=sv)
    with open(f"{side}/pairs.csv", "w", newline="") as f:
        out = csv.writer(f)
        out.writerow(["anchor", "positive"])
        for a in rng.permutation(np.repeat(np.arange(len(xt)), 2)):
            others = [b for b in np.flatnonzero(st == st[a]) if b != a]
            out.writerow([a, a if side == "bug" else int(rng.choice(others))])
