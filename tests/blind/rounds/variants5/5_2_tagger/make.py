from pathlib import Path
import json, numpy as np
here = Path(__file__).parent
rng = np.random.default_rng(33)
tags = ["O", "VENDOR", "DATE", "AMOUNT", "TAX", "<pad>"]
L = 36
# words: 1..199 filler, 200..259 vendor-like (ambiguous), 260..269 cues
def doc():
    w, s, t = [], [], []
    for _ in range(rng.integers(2, 5)):
        for _ in range(rng.integers(2, 6)): w.append(rng.integers(1, 200)); s.append(rng.choice([1, 2], p=[.8, .2])); t.append(0)
        k = rng.integers(1, 5)
        if k == 1:
            w.append(260); s.append(1); t.append(0)
            for _ in range(rng.integers(1, 4)): w.append(rng.integers(200, 260)); s.append(2); t.append(1)
        if k == 2: w.append(261); s.append(1); t.append(0); w.append(rng.integers(270, 300)); s.append(4); t.append(2)
        if k in (3, 4): w.append(rng.choice([262, 263] if k == 3 else [264, 265])); s.append(1); t.append(0); w.append(rng.integers(270, 300)); s.append(3); t.append(k)
        if rng.random() < .5: w.append(rng.integers(270, 300)); s.append(rng.choice([3, 4])); t.append(0)
        if rng.random() < .3: w.append(rng.integers(200, 260)); s.append(2); t.append(0)
    return w[:L], s[:L], t[:L]
def part(n):
    W, S = np.zeros((n, L), "i4"), np.zeros((n, L), "i4"); T = np.full((n, L), 5, "i4"); ln = np.zeros(n, "i4")
    for i in range(n):
        w, s, t = doc(); m = len(w); W[i, :m], S[i, :m], T[i, :m], ln[i] = w, s, t, m
    return dict(words=W, shapes=S, tags=T, length=ln)
parts = {p: part(n) for p, n in (("train", 1200), ("valid", 200), ("test", 400))}
for side, ig in (("bug", 0), ("ok", 5)):
    d = here / side; d.mkdir(exist_ok=True)
    for p, v in parts.items(): np.savez(d / f"{p}.npz", **v)
    json.dump(dict(seed=4, tags=tags, n_words=300, n_shapes=5, dim=24, hidden=48, ignore_index=ig, lr=.003, batch_size=40, epochs=8), open(d / "tagger.json", "w"), indent=2)
