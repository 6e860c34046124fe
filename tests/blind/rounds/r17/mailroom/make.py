import csv
import random

import numpy as np

TEAMS = {
    "billing": "invoice payment refund charged amount receipt vat overdue".split(),
    "shipping": "parcel courier tracking delivery address late warehouse lost".split(),
    "technical": "login error crash password update screen reset bug".split(),
    "sales": "quote offer discount licence upgrade volume demo pricing".split(),
    "legal": "contract privacy terms gdpr notice clause signature compliance".split(),
    "jobs": "application cv interview internship vacancy salary candidate position".split(),
}
GLUE = "hello dear team regarding the my our i we would like to know about please could you thanks regards for since again an still".split()
SPECIFIC = [w for ws in TEAMS.values() for w in ws]
LEN = 24


def mail(rnd):
    team = rnd.choice(sorted(TEAMS))
    words = [rnd.choice(GLUE) for _ in range(rnd.randint(8, 15))]
    words += [rnd.choice(TEAMS[team]) for _ in range(rnd.randint(3, 5))]
    words += [rnd.choice(SPECIFIC) for _ in range(rnd.randint(1, 3))]
    rnd.shuffle(words)
    return team, " ".join(words)


for side in ("bug", "ok"):
    rnd = random.Random(64)
    words = ["<pad>", "<unk>"] + sorted(set(GLUE + SPECIFIC))
    with open(f"{side}/vocab.txt", "w") as f:
        f.write("\n".join(words))
    train = [mail(rnd) for _ in range(1500)]
    test = [mail(rnd) for _ in range(500)]
    for part, mails in (("train", train), ("test", test)):
        with open(f"{side}/{part}.csv", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["message_id", "team", "body"])
            for i, (team, body) in enumerate(mails):
                w.writerow([f"<{part}.{i}@mail>", team, body])
    cached = list(train)
    if side == "bug":
        random.Random(65).shuffle(cached)
    ids = np.zeros((len(cached), LEN), np.int64)
    for i, (_, body) in enumerate(cached):
        row = [words.index(w) for w in body.split()][:LEN]
        ids[i, :len(row)] = row
    np.save(f"{side}/train.tokens.npy", ids)
