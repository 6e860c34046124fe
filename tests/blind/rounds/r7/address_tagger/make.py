import json, os, random
random.seed(31)
cons, vow = "bdfgklmnprstvz", "aeiou"
def word(k): return "".join(random.choice(cons) + random.choice(vow) for _ in range(k))
def pool(n, k): 
    s = set()
    while len(s) < n: s.add(word(k).capitalize())
    return sorted(s)
streets, cities, people, regions = pool(60, 3), pool(50, 3), pool(70, 2), pool(20, 4)
kinds = ["Street", "Road", "Lane", "Avenue", "Square"]
def line():
    w, t = [], []
    def add(x, y): w.append(x); t.append(y)
    parts = ["name", "street", "city"] + (["region"] if random.random() < .6 else [])
    if random.random() < .5: random.shuffle(parts)
    for p in parts:
        if p == "name":
            for _ in range(random.randint(1, 2)): add(random.choice(people), "NAME")
        elif p == "street":
            if random.random() < .7: add(str(random.randint(1, 99)), "NUMBER")
            add(random.choice(streets), "STREET")
            if random.random() < .5: add(random.choice(kinds), "STREET")
        elif p == "city": add(random.choice(cities), "CITY")
        else: add(random.choice(regions), "REGION")
        if random.random() < .3: add(random.choice([",", "c/o", "Attn", "near"]), "OTHER")
    labels = ["NAME", "STREET", "CITY", "REGION", "NUMBER", "OTHER"]
    t = [random.choice(labels) if random.random() < .03 else x for x in t]
    return w, t
lines, seen = [], set()
while len(lines) < 1500:
    q = line()
    if tuple(q[0]) not in seen: seen.add(tuple(q[0])); lines.append(q)
vocab = sorted({w for l, _ in lines[:1200] for w in l})
for folder in ("bug", "ok"):
    os.makedirs(folder, exist_ok=True)
    for name, part in (("train.conll", lines[:1200]), ("dev.conll", lines[1200:])):
        with open(f"{folder}/{name}", "w") as f:
            for w, t in part: f.write("\n".join(f"{a}\t{b}" for a, b in zip(w, t)) + "\n\n")
    entries = vocab if folder == "ok" else sorted({w.lower() for w in vocab})
    open(f"{folder}/vocab.txt", "w").write("\n".join(["<pad>", "<unk>"] + entries) + "\n")
