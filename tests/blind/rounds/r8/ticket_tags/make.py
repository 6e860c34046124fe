import os
import numpy as np
here = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(9)
KW = {"billing": "invoice charge bill payment card price", "delivery": "parcel courier shipping late tracking box",
      "account": "password login email profile locked signin", "returns": "refund return exchange label broken money",
      "app": "crash screen update phone button freeze", "praise": "great thanks love happy perfect friendly"}
TAGS = list(KW); KW = {k: v.split() for k, v in KW.items()}
FILL = "i my the please help with about since week you we order need can not it this again still now hello team was".split()
def make(n):
    out = []
    for _ in range(n):
        k = rng.choice([1, 2, 3], p=[.3, .45, .25])
        tags = [TAGS[j] for j in rng.choice(len(TAGS), k, replace=False)]
        w = [FILL[j] for j in rng.integers(0, len(FILL), rng.integers(4, 8))]
        for t in tags: w += [KW[t][j] for j in rng.integers(0, 6, rng.integers(1, 3))]
        if rng.random() < .3: w.append(KW[TAGS[rng.integers(6)]][rng.integers(6)])
        rng.shuffle(w); out.append((" ".join(w), tags))
    return out
tr, va = make(1800), make(500)
for d, sep in (("ok", "|"), ("bug", "; ")):
    os.makedirs(f"{here}/{d}", exist_ok=True)
    open(f"{here}/{d}/tags.txt", "w").write("\n".join(TAGS) + "\n")
    for n, rows, s in (("train", tr, sep), ("valid", va, "|")):
        open(f"{here}/{d}/{n}.tsv", "w").write("".join(f"{x}\t{s.join(t)}\n" for x, t in rows))
