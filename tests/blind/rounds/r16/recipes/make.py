import json
from pathlib import Path
import numpy as np

HERE = Path(__file__).resolve().parent
# tags: 0 other, 1 quantity, 2 unit, 3 ingredient, 4 preparation, 5 filler at the end of a line
EMIT = {0: (1, 30), 1: (30, 50), 2: (45, 65), 3: (60, 110), 4: (105, 130)}
NEXT = {0: [.3, .4, 0, .3, 0], 1: [0, 0, .8, .2, 0], 2: [.2, 0, 0, .8, 0], 3: [.4, .1, 0, .2, .3], 4: [.6, .3, 0, 0, .1]}


def lines(n, rng):
    words, tags = np.zeros((n, 14), np.int64), np.full((n, 14), 5, np.int64)
    for i in range(n):
        tag = 0
        for j in range(rng.integers(6, 15)):
            tag = rng.choice(5, p=NEXT[tag])
            lo, hi = EMIT[tag]
            words[i, j], tags[i, j] = rng.integers(lo, hi), tag
    return words, tags


for side in ("bug", "ok"):
    rng = np.random.default_rng(15)
    out = HERE / side
    out.mkdir(exist_ok=True)
    for part, n in (("train", 600), ("test", 200)):
        words, tags = lines(n, rng)
        np.savez(out / f"{part}.npz", words=words, tags=tags)
    cfg = {"vocab_size": 130, "n_tags": 6, "ignore_tag": 2 if side == "bug" else 5, "dim": 16, "hidden": 24,
           "epochs": 6, "batch": 40, "lr": 0.01}
    (out / "tagger.json").write_text(json.dumps(cfg, indent=1))
