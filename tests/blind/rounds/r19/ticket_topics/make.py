import os
import random
from collections import Counter

GLUE = "the a my i is was to and of on in it for with this when please we not after".split()


def word(rng):
    return "".join(rng.choice(["b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "st", "tr", "pl"]) +
                   rng.choice(["a", "e", "i", "o", "u", "ai", "ou"]) for _ in range(rng.randint(2, 3)))


def lexicon(seed, topics, per_topic, shared):
    rng = random.Random(seed)
    used = set(GLUE)

    def fresh():
        while True:
            w = word(rng)
            if w not in used:
                used.add(w)
                return w
    return [[fresh() for _ in range(per_topic)] for _ in range(topics)], [fresh() for _ in range(shared)]


def corpus(lex, n, seed, noise=0.08):
    topics, shared = lex
    rng = random.Random(seed)
    rows = []
    for _ in range(n):
        t = rng.randrange(len(topics))
        src = t if rng.random() > noise else rng.randrange(len(topics))
        ws = []
        for _ in range(rng.randint(12, 30)):
            u = rng.random()
            if u < .4:
                ws.append(rng.choice(GLUE))
            elif u < .75:
                ws.append(rng.choice(shared))
            elif u < .93:
                ws.append(rng.choice(topics[src]))
            else:
                ws.append(rng.choice(topics[rng.randrange(len(topics))]))
        ws[0] = ws[0].capitalize()
        rows.append((f"topic{t}", " ".join(ws) + "."))
    return rows


def vocab(rows):
    c = Counter(w for _, s in rows for w in s.lower().rstrip(".").split())
    return ["<pad>", "<unk>"] + [w for w, k in sorted(c.items(), key=lambda p: (-p[1], p[0])) if k > 1]


support = lexicon(1, 8, 80, 400)
clinical = lexicon(2, 8, 80, 400)
train, test = corpus(support, 4000, 11), corpus(support, 1200, 12)
other = corpus(clinical, 4000, 13)
for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    for name, rows in (("train", train), ("test", test)):
        with open(f"{side}/{name}.tsv", "w") as f:
            f.writelines(f"{t}\t{s}\n" for t, s in rows)
    with open(f"{side}/vocab.txt", "w") as f:
        f.write("\n".join(vocab(other if side == "bug" else train)) + "\n")
