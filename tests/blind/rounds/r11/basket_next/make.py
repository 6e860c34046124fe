import os
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(70)
ITEMS, USERS, L = 150, 1800, 14
after = rng.permutation(ITEMS)
alt = rng.permutation(ITEMS)


def walk():
    s = [int(rng.integers(ITEMS))]
    while len(s) < L + 1:
        u = rng.random()
        s.append(int(after[s[-1]] if u < 0.65 else alt[s[-1]] if u < 0.85 else rng.integers(ITEMS)))
    return s


train = [walk() for _ in range(USERS)]
test = np.array([walk() for _ in range(700)])
for name in ("ok", "bug"):
    d = os.path.join(HERE, name)
    os.makedirs(d, exist_ok=True)
    with open(os.path.join(d, "events.tsv"), "w") as f:
        f.write("user\titem\n")
        for u, s in enumerate(train):
            for it in (s if name == "ok" else sorted(s)):
                f.write(f"u{u:05d}\t{it}\n")
    np.save(os.path.join(d, "holdout.npy"), test)
