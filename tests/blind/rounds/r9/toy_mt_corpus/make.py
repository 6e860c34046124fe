import os, random
rng = random.Random(4)
NOUN = "dog cat house river teacher child king tree bird garden ship baker".split()
ADJ = "big small red old happy quiet clever green".split()
VERB = "sees likes finds follows helps paints".split()
ADV = "today often slowly never".split()
syl = [c + v for c in "bdfgklmnprst" for v in "aeiou"]
words = NOUN + ADJ + VERB + ADV + ["the", "a", "and"]
lex, used = {}, set()
for w in words:
    while True:
        t = "".join(rng.choices(syl, k=rng.choice([1, 2, 2])))
        if t not in used: break
    used.add(t); lex[w] = t
def np_():
    d, a, n = rng.choice(["the", "a"]), rng.sample(ADJ, rng.choice([0, 1, 1, 2])), rng.choice(NOUN)
    return [d] + a + [n], [lex[n]] + [lex[x] for x in a] + [lex[d]]   # noun first, article last
def sent():
    s, ts = np_(); o, to = np_(); v = rng.choice(VERB)
    if rng.random() < .3:
        s2, ts2 = np_(); s += ["and"] + s2; ts += [lex["and"]] + ts2
    adv = [rng.choice(ADV)] if rng.random() < .4 else []
    return " ".join(s + [v] + o + adv), " ".join([lex[x] for x in adv] + ts + to + [lex[v]])  # SOV
seen, rows = set(), []
while len(rows) < 2100:
    r = sent()
    if r[0] not in seen: seen.add(r[0]); rows.append(r)
tr, va = rows[:1800], rows[1800:]
for d in ("bug", "ok"):
    os.makedirs(d, exist_ok=True)
    tgt = [b for _, b in tr]
    if d == "bug": del tgt[37]
    for name, lines in [("train.src", [a for a, _ in tr]), ("train.tgt", tgt), ("valid.src", [a for a, _ in va]), ("valid.tgt", [b for _, b in va])]:
        open(f"{d}/{name}", "w").write("\n".join(lines) + "\n")
