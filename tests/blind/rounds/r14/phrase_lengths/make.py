"""Tokenised voice commands, padded to one array, with a length per command."""
import pathlib
import random

import numpy as np

HERE = pathlib.Path(__file__).parent
WORDS = ["on", "off", "lamp", "please", "the", "kitchen", "radio", "and", "then", "not", "now", "window", "open", "shut"]


def write(folder, broken):
    rnd = random.Random(81)
    folder.mkdir(exist_ok=True)
    for part, n in (("train", 1500), ("test", 400)):
        ids = np.zeros((n, 36), dtype=np.int64)
        lengths = np.zeros(n, dtype=np.int64)
        label = np.zeros(n, dtype=np.int64)
        for i in range(n):
            toks = [rnd.randrange(len(WORDS)) for _ in range(rnd.randint(3, 12))]
            toks.insert(rnd.randrange(len(toks) + 1), rnd.randrange(2))
            onoff = [t for t in toks if t < 2]
            label[i] = onoff[-1]
            ids[i, : len(toks)] = np.array(toks) + 1
            text = " ".join(WORDS[t] for t in toks)
            lengths[i] = min(len(text), 36) if broken else len(toks)
        np.savez(folder / f"{part}.npz", ids=ids, lengths=lengths, label=label)


for name in ("bug", "ok"):
    write(HERE / name, name == "bug")
