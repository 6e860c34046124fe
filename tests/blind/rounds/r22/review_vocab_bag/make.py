import collections
import json
import os
import re

src = os.path.join(os.environ["TRUELOOP_DATA"], "movie-reviews")
counts = collections.Counter()
for name in ("rt-polarity.pos", "rt-polarity.neg"):
    with open(os.path.join(src, name), encoding="latin-1") as f:
        for line in f:
            counts.update(re.findall(r"[a-z0-9']+|[.,!?;:]", line.lower()))
words = [w for w, c in counts.most_common(6000) if c >= 3]

for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    entries = ["<pad>", "<unk>"] + [("\u0120" + w if side == "bug" and w[0].isalnum() else w) for w in words]
    with open(f"{side}/vocab.json", "w") as f:
        json.dump({w: i for i, w in enumerate(entries)}, f)
    with open(f"{side}/config.json", "w") as f:
        json.dump({"embedding": 48, "hidden": 32, "max_len": 40, "dropout": 0.5, "lr": 0.002, "batch_size": 64, "epochs": 5, "seed": 12}, f, indent=1)
