"""Pretrained word vectors, their vocabulary and a few labelled reviews."""
import json
import pathlib
import random

import numpy as np

HERE = pathlib.Path(__file__).parent
SYL = ["ka", "lo", "mi", "ner", "tu", "sha", "pri", "ve", "dor", "han", "jit", "ram"]


def write(folder, broken):
    rnd = random.Random(3)
    rng = np.random.default_rng(3)
    folder.mkdir(exist_ok=True)
    words = set()
    while len(words) < 600:
        words.add("".join(rnd.choice(SYL) for _ in range(rnd.randint(2, 4))))
    words = sorted(words)
    rnd.shuffle(words)
    mood = {w: rnd.gauss(0, 1) for w in words}
    direction = rng.normal(size=16)
    direction /= np.linalg.norm(direction)
    vectors = np.stack([mood[w] * direction * 1.2 + 0.6 * rng.normal(size=16) for w in words])
    np.save(folder / "vectors.npy", vectors.astype(np.float32))
    listing = sorted(words) if broken else words
    (folder / "vocab.json").write_text(json.dumps({w: i for i, w in enumerate(listing)}))
    for part, n in (("train", 150), ("test", 500)):
        with open(folder / f"{part}.txt", "w") as f:
            for _ in range(n):
                toks = [rnd.choice(words) for _ in range(rnd.randint(5, 14))]
                good = sum(mood[t] for t in toks) > 0
                f.write(("pos" if good else "neg") + "\t" + " ".join(toks) + "\n")


for name in ("bug", "ok"):
    write(HERE / name, name == "bug")
