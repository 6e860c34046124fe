import random

rng = random.Random(1)
SYL = "ba ko ri ten mo sal du ver pli ash no gar".split()
words = sorted({"".join(rng.choices(SYL, k=rng.randint(2, 3))) for _ in range(500)})
rng.shuffle(words)
topics = {t: words[40 * i:40 * i + 40] for i, t in enumerate(["billing", "shipping", "account", "returns", "technical"])}
common = words[200:320]


def ticket(topic):
    ws = rng.choices(topics[topic], k=rng.randint(2, 4)) + rng.choices(common, k=rng.randint(6, 12))
    rng.shuffle(ws)
    return " ".join(ws)


def rows(n):
    return [(t, ticket(t)) for t in (rng.choice(list(topics)) for _ in range(n))]


train, val = rows(1400), rows(300)
used = sorted({w for _, s in train for w in s.split()})
for side in ("bug", "ok"):
    for name, part in (("train", train), ("val", val)):
        with open(f"{side}/{name}.tsv", "w") as f:
            f.writelines(f"{t}\t{s}\n" for t, s in part)
    with open(f"{side}/vocab.txt", "w") as f:
        f.write("<pad>\n<unk>\n" + "\n".join(w.capitalize() if side == "bug" and i % 25 else w for i, w in enumerate(used)) + "\n")
