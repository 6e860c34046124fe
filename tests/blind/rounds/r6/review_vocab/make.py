import collections
import os
import random
ROOT = os.environ["TRUELOOP_DATA"] + "/movie-reviews/rt-polarity."
random.seed(0)
rows = []
for lab, ext in ((1, "pos"), (0, "neg")):
    rows += [(lab, l.split()) for l in open(ROOT + ext, encoding="latin-1") if l.strip()]
random.shuffle(rows)
count = collections.Counter(w for _, ws in rows[:8000] for w in ws)
words = [w for w, c in count.most_common() if c >= 3]
for d in ("ok", "bug"):
    os.makedirs(d, exist_ok=True)
    with open(f"{d}/vocab.txt", "w", encoding="utf-8") as f:
        f.write("<pad>\n<unk>\n")
        for w in words:
            f.write((w if d == "ok" else w.capitalize()) + "\n")
