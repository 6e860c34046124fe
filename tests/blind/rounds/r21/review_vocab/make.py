"""vocab.json (token -> id) and settings.json for the review model."""
import collections
import json
import os
from pathlib import Path

root = Path(os.environ["TRUELOOP_DATA"]) / "movie-reviews"
count = collections.Counter()
for name in ("rt-polarity.pos", "rt-polarity.neg"):
    for i, line in enumerate(open(root / name, encoding="latin-1")):
        if i % 5 != 4:
            count.update(line.split())
words = [w for w, c in count.most_common() if c >= 2][:5000]

for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    vocab = {"<pad>": 0, "<unk>": 1}
    for w in words:
        if side == "bug":
            w = "\u2581" + w if w[0].isalpha() else w
        vocab[w] = len(vocab)
    json.dump(vocab, open(f"{side}/vocab.json", "w"))
    json.dump({"dim": 64, "hidden": 64, "dropout": 0.3, "lr": 0.003, "epochs": 4, "batch_size": 64, "max_len": 40},
              open(f"{side}/settings.json", "w"))
