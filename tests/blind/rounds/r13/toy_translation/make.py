"""Writes bug/ and ok/: train.src, train.tgt, test.src, test.tgt."""
import os
import numpy as np
HERE = os.path.dirname(os.path.abspath(__file__))
NOUN = "dog cat bird man child king river stone tree boat".split()
ADJ = "red old big small wet happy".split()
VERB = "sees takes follows finds loves leaves".split()
LEX = {w: "".join(chr((ord(c) - 97 + 7) % 26 + 97) for c in reversed(w)) for w in NOUN + ADJ + VERB}


def pair(rng):
    np_ = lambda: ([rng.choice(ADJ)] if rng.random() < 0.6 else []) + [rng.choice(NOUN)]
    a, v, b = np_(), rng.choice(VERB), np_()
    tr = lambda p: [LEX[w] for w in reversed(p)]
    return " ".join(a + [v] + b), " ".join(tr(a) + tr(b) + [LEX[v]])


rng = np.random.default_rng(3)
train, test = [pair(rng) for _ in range(2400)], [pair(rng) for _ in range(300)]
src, tgt = [p[0] for p in train], [p[1] for p in train]
for name in ("bug", "ok"):
    d = os.path.join(HERE, name)
    os.makedirs(d, exist_ok=True)
    s, t = list(src), list(tgt)
    if name == "bug":
        del t[431]
        del s[-1]
    else:
        del t[431], s[431]
    for fn, lines in (("train.src", s), ("train.tgt", t), ("test.src", [p[0] for p in test]), ("test.tgt", [p[1] for p in test])):
        open(os.path.join(d, fn), "w").write("\n".join(lines) + "\n")
