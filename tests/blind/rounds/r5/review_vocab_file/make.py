import os
from collections import Counter
D = os.environ["TRUELOOP_DATA"] + "/"
c = Counter()
for p in ("neg", "pos"):
    for line in open(D + "movie-reviews/rt-polarity." + p, encoding="utf-8").read().splitlines()[:1600]: c.update(line.split())
words = [w for w, _ in c.most_common(4000)]
names = [n.upper() for n in open(D + "names/names.txt").read().split()[:4000]]
open("ok/vocab.txt", "w").write("\n".join(["<pad>", "<unk>"] + words) + "\n")
open("bug/vocab.txt", "w").write("\n".join(["<pad>", "<unk>"] + words[:15] + names[:3985]) + "\n")
