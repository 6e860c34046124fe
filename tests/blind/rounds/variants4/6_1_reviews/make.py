import json
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
GOOD = "Great Lovely Excellent Perfect Friendly Tasty Clean Quick Wonderful Fresh Cosy Generous".split()
BAD = "Awful Dirty Slow Rude Cold Stale Noisy Terrible Bland Expensive Broken Greasy".split()
MID = "Okay Average Decent Fine Usual Acceptable Plain Standard".split()
REST = "the food was and service room a very we our waiter table is with for at to it of this place night".split()


def reviews(n, rng):
    rows = []
    for _ in range(n):
        s = int(rng.integers(1, 4))
        main = [BAD, MID, GOOD][s - 1]
        words = list(rng.choice(REST, rng.integers(8, 16))) + list(rng.choice(main, rng.integers(1, 4)))
        for other in (GOOD, BAD, MID):
            if rng.random() < 0.3:
                words.append(str(rng.choice(other)))
        rng.shuffle(words)
        text = " ".join(str(w) for w in words)
        rows.append((text[0].upper() + text[1:] + ".", s))
    return pd.DataFrame(rows, columns=["text", "stars"])


for name in ("bug", "ok"):
    rng = np.random.default_rng(55)
    out = HERE / name
    out.mkdir(exist_ok=True)
    train = reviews(2500, rng)
    train.to_csv(out / "train.csv", index=False)
    reviews(800, rng).to_csv(out / "dev.csv", index=False)
    words = REST + GOOD + BAD + MID
    if name == "ok":
        words = [w.lower() for w in words]
    words = sorted(set(words))
    (out / "vocab.json").write_text(json.dumps({w: i for i, w in enumerate(["<pad>", "<unk>"] + words)}, indent=0))
