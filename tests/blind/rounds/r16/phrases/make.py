import random
from pathlib import Path
import numpy as np

HERE = Path(__file__).resolve().parent
INTENTS = ["book", "cancel", "status", "refund", "greet"]
LETTERS = "abcdefghijklmnopqrstuvwxyz"

for side in ("bug", "ok"):
    rnd, rng = random.Random(33), np.random.default_rng(33)
    out = HERE / side
    out.mkdir(exist_ok=True)
    words = set()
    while len(words) < 400:
        words.add("".join(rnd.choice(LETTERS) for _ in range(rnd.randint(3, 8))))
    words = sorted(words)
    rnd.shuffle(words)
    theme = {w: rnd.randrange(8) for w in words}
    centre = rng.normal(size=(8, 16))
    vectors = np.stack([centre[theme[w]] + 0.5 * rng.normal(size=16) for w in words])
    np.save(out / "vectors.npy", vectors.astype(np.float32))
    listing = sorted(words) if side == "bug" else words
    (out / "vocab.txt").write_text("\n".join(listing) + "\n")
    by_theme = {t: [w for w in words if theme[w] == t] for t in range(8)}

    def phrase(part):
        k = rnd.randrange(5)
        pick = lambda t: rnd.choice(by_theme[t][:12] if part == "train" else by_theme[t])
        toks = [pick(k) for _ in range(3)] + [pick(rnd.choice([5, 6, 7])) for _ in range(4)]
        rnd.shuffle(toks)
        return INTENTS[k] + "\t" + " ".join(toks)

    for part, n in (("train", 500), ("test", 400)):
        (out / f"{part}.tsv").write_text("\n".join(phrase(part) for _ in range(n)) + "\n")
