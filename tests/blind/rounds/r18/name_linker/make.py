"""mentions with their candidate entities, and entity vectors"""
import json
import numpy as np

r = np.random.default_rng(101)
E, D, TYPES = 600, 24, ["person", "city", "club", "company", "river", "film"]
topic = r.normal(0, 1, (8, D))
t_of = r.integers(0, 8, E)
ent = topic[t_of] + 0.7 * r.normal(0, 1, (E, D))
etype = r.integers(0, 6, E)
pop = r.lognormal(4, 1.4, E)
ctx_words = [[f"w{t}_{i}" for i in range(40)] for t in range(8)]


def mentions(n):
    out = []
    for m in range(n):
        cand = r.choice(E, 8, replace=False)
        w = pop[cand] ** 0.3
        gold = int(r.choice(8, p=w / w.sum()))
        g = cand[gold]
        words = []
        for _ in range(10):
            if r.random() < 0.45:
                words.append(str(r.choice(ctx_words[t_of[g]])))
            else:
                words.append(str(r.choice(ctx_words[r.integers(8)])))
        words.insert(int(r.integers(11)), f"the_{TYPES[etype[g]] if r.random() < 0.6 else TYPES[r.integers(6)]}")
        order = np.argsort(-pop[cand] * r.lognormal(0, 0.5, 8))
        out.append({"id": f"m{m}", "context": " ".join(words), "candidates": [f"Q{c}" for c in cand[order]], "gold": f"Q{g}"})
    return out


train, test = mentions(1800), mentions(700)
for side in ("bug", "ok"):
    with open(f"{side}/train.jsonl", "w") as f:
        for m in train:
            m = dict(m)
            if side == "bug":
                m["candidates"] = [m["gold"]] + [c for c in m["candidates"] if c != m["gold"]]
            f.write(json.dumps(m) + "\n")
    with open(f"{side}/test.jsonl", "w") as f:
        f.writelines(json.dumps(m) + "\n" for m in test)
    json.dump({f"Q{i}": {"type": TYPES[etype[i]], "links": int(pop[i]) + 1} for i in range(E)}, open(f"{side}/entities.json", "w"))
    np.save(f"{side}/entity_vectors.npy", ent.astype("f4"))
    json.dump({"epochs": 8, "batch": 32, "lr": 0.004, "rank_embedding": 8, "seed": 2}, open(f"{side}/linker.json", "w"))
