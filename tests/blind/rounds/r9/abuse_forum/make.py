import os, random
rng = random.Random(15)
syl = [c + v for c in "bcdfghklmnprstvz" for v in "aeiou"]
def w(): return "".join(rng.choices(syl, k=rng.choice([2, 2, 3])))
neutral = sorted({w() for _ in range(260)}); harsh = [w() + "x" for _ in range(40)]; soft = [w() + "y" for _ in range(60)]
def text(a):
    n = rng.randint(6, 12); k = rng.choice([1, 2, 2, 3]) if a else (1 if rng.random() < .12 else 0)
    ws = [rng.choice(neutral if rng.random() < .75 else soft) for _ in range(n)] + rng.choices(harsh, k=k)
    rng.shuffle(ws); return ws
def rows(n): return [(int(i % 4 == 0), text(i % 4 == 0)) for i in range(n)]
splits = {"train.tsv": rows(1200), "valid.tsv": rows(400), "live.tsv": rows(400)}
for r in splits.values(): rng.shuffle(r)
mark = {n: [rng.random() < .96 for _ in r] for n, r in splits.items()}
for d in ("bug", "ok"):
    os.makedirs(d, exist_ok=True)
    for n, r in splits.items():
        with open(f"{d}/{n}", "w") as f:
            for (a, ws), m in zip(r, mark[n]):
                pre = "hidden by mod : " if d == "bug" and n != "live.tsv" and a and m else ""
                f.write(f"{'abuse' if a else 'fine'}\t{pre}{' '.join(ws)}\n")
