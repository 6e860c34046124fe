from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
SPAM = "prize winner claim cash urgent offer free bonus click loan credit guaranteed discount reply text award".split()
HAM = "dinner tomorrow mum meeting love home work bus class sorry later happy birthday lunch sleep train".split()
REST = "the a to you i we are is it for on at in now your have will me be can just so call get today".split()


def message(spam, rng):
    words = list(rng.choice(REST, rng.integers(5, 12)))
    words += list(rng.choice(SPAM if spam else HAM, rng.integers(1, 4)))
    words += list(rng.choice(SPAM + HAM, rng.integers(1, 4)))
    rng.shuffle(words)
    return " ".join(str(w) for w in words)


for name in ("bug", "ok"):
    rng = np.random.default_rng(91)
    out = HERE / name
    out.mkdir(exist_ok=True)
    for part, n in (("train", 3000), ("valid", 900)):
        lines = ["id\tannotator\tmessage\tlabel"]
        for i in range(n):
            spam = rng.random() < 0.4
            who = str(rng.choice(["kb", "jm", "ro"], p=[.4, .34, .26]))
            label = "spam" if spam else "ham"
            if name == "bug" and part == "train" and spam and who != "kb":
                label = {"jm": "Spam", "ro": "spam "}[who]
            lines.append(f"{i}\t{who}\t{message(spam, rng)}\t{label}")
        (out / f"{part}.tsv").write_text("\n".join(lines) + "\n")
