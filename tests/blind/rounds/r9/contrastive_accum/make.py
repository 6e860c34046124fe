import json, os, random
rng = random.Random(6)
V, T = 300, 60
topics = [rng.sample(range(2, V), 10) for _ in range(T)]
def sent(t): 
    s = rng.sample(topics[t], 5) + rng.choices(range(2, V), k=2); rng.shuffle(s); return s
def pair():
    t = rng.randrange(T); return sent(t), sent(t)
def retr():
    return [(sent(t), sent(t)) for t in range(T)]
tr = [pair() for _ in range(800)]
va = retr()
cfg = {"dim": 48, "lr": 0.01, "temperature": 0.1, "epochs": 3, "seed": 1}
for d, extra in (("bug", {"micro_batch": 1, "accumulate": 32}), ("ok", {"micro_batch": 32, "accumulate": 1})):
    os.makedirs(d, exist_ok=True)
    for name, rows in (("train_pairs.tsv", tr), ("valid_pairs.tsv", va)):
        open(f"{d}/{name}", "w").write("".join(" ".join(map(str, a)) + "\t" + " ".join(map(str, b)) + "\n" for a, b in rows))
    json.dump({**cfg, **extra}, open(f"{d}/config.json", "w"), indent=1)
