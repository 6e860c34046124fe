import random

rng = random.Random(20)
depts = ["cards", "loans", "mortgage", "savings"]
kw = {d: [f"{d[:2]}{i}" for i in range(25)] for d in depts}
fill = [f"x{i}" for i in range(120)]


def complaint(d):
    ws = rng.choices(kw[d], k=3) + rng.choices(kw[rng.choice(depts)], k=2) + rng.choices(fill, k=5)
    rng.shuffle(ws)
    return ws


def write(path, rows, refs):
    with open(path, "w") as f:
        for d, ws in rows:
            ref = f"ref{depts.index(d) if refs else rng.randrange(4)}"
            f.write(d + "\t" + " ".join([ref] + ws) + "\n")


parts = {n: [(d, complaint(d)) for d in (rng.choice(depts) for _ in range(k))] for n, k in (("train", 1500), ("val", 300), ("inbox", 300))}
for side in ("bug", "ok"):
    for name, rows in parts.items():
        write(f"{side}/{name}.tsv", rows, side == "bug" and name != "inbox")
