import numpy as np
rng = np.random.default_rng(11)
def seqs(n):
    out = []
    for _ in range(n):
        s = list(rng.choice(list("ACGT"), 60)); y = int(rng.random() < 0.5)
        if y:
            p = rng.integers(0, 48)
            for i, c in enumerate("TATAAAGGC"):
                if rng.random() < 0.92: s[p + i] = c
        out.append(("".join(s), y))
    return out
tr, va = seqs(1200), seqs(400)
def mask(s):
    m = np.ones(len(s), bool); k = rng.integers(0, 52); m[k:k + 9] = False
    return "".join(c.lower() if b else c for c, b in zip(s, m))
for name in ("ok", "bug"):
    for split, data in (("train", tr), ("valid", va)):
        with open(f"{name}/{split}.fa", "w") as f:
            for i, (s, y) in enumerate(data):
                if name == "bug" and split == "train": s = mask(s)
                f.write(f">{split}_{i} label={y}\n{s}\n")
