import os, random, string

here = os.path.dirname(os.path.abspath(__file__))
D = os.environ["TRUELOOP_DATA"]
rnd = random.Random(5)


def lines(path, enc):
    out = []
    for l in open(path, encoding=enc):
        l = "".join(c for c in l.strip().lower() if c in string.ascii_lowercase + " ")
        l = " ".join(l.split())[:40].strip()
        if len(l) > 24:
            out.append(l)
    return sorted(set(out))


old = rnd.sample(lines(D + "tinyshakespeare/input.txt", "utf-8"), 1100)
new = rnd.sample(lines(D + "movie-reviews/rt-polarity.pos", "latin-1"), 1100)
rows = [("play", l) for l in old] + [("press", l) for l in new]
rnd.shuffle(rows)
for name in ("bug", "ok"):
    os.makedirs(f"{here}/{name}", exist_ok=True)
    for part, chunk in (("train", rows[:1600]), ("val", rows[1600:])):
        with open(f"{here}/{name}/{part}.tsv", "w") as f:
            f.writelines(f"{a}\t{b}\n" for a, b in chunk)
    letters = string.ascii_lowercase if name == "ok" else string.ascii_uppercase
    with open(f"{here}/{name}/charset.txt", "w") as f:
        f.write("<pad>\n<unk>\n<space>\n" + "\n".join(letters) + "\n")
