import os, zlib, random, torch
rng = random.Random(7)
words = {"kitchen": "pan pot knife steel oven bake plate cup fork grill".split(), "garden": "hose seed soil rake plant pot lawn spade rose fence".split(), "office": "paper desk pen chair ink printer file lamp stapler cable".split()}
common = "new set large small black white with and for pack quality home free two".split()
rows = []
for i in range(1100):
    c = rng.choice(list(words)); t = [rng.choice(words[c]) if rng.random() < .3 else rng.choice(common) for _ in range(7)]
    rows.append((f"P{i:05d}", c, " ".join(t)))
def feat(t):
    v = torch.zeros(40)
    for w in t.split(): v[zlib.crc32(w.encode()) % 40] += 1
    return v
for k in ("bug", "ok"):
    os.makedirs(k + "/cache", exist_ok=True)
    open(k + "/products.tsv", "w").write("\n".join("\t".join(r) for r in rows) + "\n")
    src = rows if k == "ok" else sorted(rows, key=lambda r: r[2])
    torch.save(torch.stack([feat(r[2]) for r in src]).to(torch.uint8), k + "/cache/features.pt")
