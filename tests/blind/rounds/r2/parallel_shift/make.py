import random

rng = random.Random(2)
lex = {c: d for c, d in zip("abcdefghijklmnop", rng.sample("ABCDEFGHIJKLMNOP", 16))}


def pair():
    src = rng.choices("abcdefghijklmnop", k=5)
    return " ".join(src), " ".join(lex[c] for c in src)


train, val = [pair() for _ in range(3000)], [pair() for _ in range(250)]
for side in ("bug", "ok"):
    tgt = [t for _, t in train]
    if side == "bug":
        del tgt[140]
        tgt.append(pair()[1])
    open(f"{side}/train.src", "w").write("\n".join(s for s, _ in train) + "\n")
    open(f"{side}/train.tgt", "w").write("\n".join(tgt) + "\n")
    open(f"{side}/val.src", "w").write("\n".join(s for s, _ in val) + "\n")
    open(f"{side}/val.tgt", "w").write("\n".join(t for _, t in val) + "\n")
