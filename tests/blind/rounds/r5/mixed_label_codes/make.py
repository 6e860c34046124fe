import random
rng = random.Random(5)
topic = ["slow lag delay wait loading".split(), "invoice refund charge price bill".split(), "login password account locked reset".split(), "crash error broken fail lost".split()]
common = "the my please help again today since app page hello team when after it is not".split()
def ticket(c): return " ".join(rng.choice(topic[c]) if rng.random() < .3 else rng.choice(common) for _ in range(8))
def make(n): return [(c, ticket(c)) for c in (rng.randrange(4) for _ in range(n))]
a, b, v = make(500), make(700), make(400)
for k in ("bug", "ok"):
    for name, rows, off in (("export_a", a, 0), ("export_b", b, 1 if k == "bug" else 0), ("holdout", v, 0)):
        open(f"{k}/{name}.tsv", "w").write("".join(f"{c + off}\t{t}\n" for c, t in rows))
