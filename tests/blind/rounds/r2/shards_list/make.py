import os
import random

rng = random.Random(15)
langs = ["ilo", "ced", "sam", "tok"]
letters = {l: rng.choices("abcdefghijklmnopqrstuvwxyz", k=14) for l in langs}


def word(l):
    return "".join(rng.choices(letters[l] * 2 + list("aeioutrns"), k=rng.randint(5, 9)))


rows = {l: [word(l) for _ in range(400)] for l in langs}
val = [(l, word(l)) for l in langs for _ in range(80)]
for side in ("bug", "ok"):
    os.makedirs(f"{side}/shards", exist_ok=True)
    for k, l in enumerate(langs):
        with open(f"{side}/shards/part-{k:02d}.txt", "w") as f:
            f.writelines(f"{l}\t{w}\n" for w in rows[l])
    with open(f"{side}/val.txt", "w") as f:
        f.writelines(f"{l}\t{w}\n" for l, w in val)
    with open(f"{side}/manifest.txt", "w") as f:
        order = [0, 1, 1, 3] if side == "bug" else [0, 1, 2, 3]
        f.writelines(f"part-{k:02d}.txt\n" for k in order)
