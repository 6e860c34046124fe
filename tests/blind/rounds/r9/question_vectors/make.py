import os, random
import numpy as np
rng = random.Random(8); nr = np.random.default_rng(8)
CL = ["person", "place", "number", "date", "reason", "definition"]
syl = [c + v for c in "bcdfglmnprstvw" for v in "aeiou"]
seen, topic = set(), {}
def word():
    while True:
        w = "".join(rng.choices(syl, k=rng.choice([2, 3]))) + rng.choice(["", "n", "r", "s"])
        if w not in seen: seen.add(w); return w
kw = {c: [word() for _ in range(45)] for c in CL}
common = [word() for _ in range(90)]
cen = {c: nr.normal(0, 1, 16) for c in CL}
vec = {}
for c in CL:
    for w in kw[c]: vec[w] = cen[c] + nr.normal(0, .7, 16)
for w in common: vec[w] = nr.normal(0, .7, 16)
vec["?"] = nr.normal(0, .7, 16)
def q(c):
    n = rng.randint(2, 3); ws = rng.sample(kw[c], n) + rng.choices(common, k=rng.randint(3, 5))
    if rng.random() < .25: ws.append(rng.choice(kw[rng.choice(CL)]))
    rng.shuffle(ws); ws[0] = ws[0].capitalize()
    return " ".join(ws) + " ?"
rows = [(c, q(c)) for c in rng.choices(CL, k=1500)]
for d in ("bug", "ok"):
    os.makedirs(d, exist_ok=True)
    for name, part in (("train.txt", rows[:1100]), ("valid.txt", rows[1100:])):
        open(f"{d}/{name}", "w").write("".join(f"{c}\t{t}\n" for c, t in part))
    with open(f"{d}/vectors.txt", "w") as f:
        ws = sorted(vec); rng2 = random.Random(1); rng2.shuffle(ws)
        for w in ws:
            f.write((w.capitalize() if d == "bug" else w) + " " + " ".join(f"{v:.3f}" for v in vec[w]) + "\n")
