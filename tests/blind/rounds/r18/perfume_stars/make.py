"""reviews, vocabulary and pretrained word vectors"""
import json
import numpy as np

r = np.random.default_rng(30)
GROUPS = {"good": ["gorgeous", "addictive", "elegant", "radiant", "compliments", "heavenly", "divine", "stunning", "refined", "lovely", "signature", "masterpiece", "dreamy", "luxurious", "beautiful", "adore"],
          "bad": ["cloying", "synthetic", "headache", "cheap", "sour", "nauseating", "harsh", "rubbery", "overpriced", "flat", "screechy", "regret", "awful", "stale", "sickly", "returned"],
          "weak": ["fades", "vanishes", "weak", "faint", "skin", "short", "gone", "nothing"],
          "strong": ["lasting", "projects", "beast", "sillage", "potent", "trail", "hours", "enduring"],
          "notes": ["bergamot", "vetiver", "oud", "rose", "jasmine", "vanilla", "amber", "musk", "patchouli", "iris", "neroli", "tonka", "cedar", "leather", "fig", "saffron"],
          "fill": ["the", "opening", "drydown", "bottle", "on", "my", "and", "with", "a", "of", "summer", "winter", "evening", "office", "scent", "wear", "it", "is", "very", "this"]}
EFFECT = {"good": 1.0, "bad": -1.1, "weak": -0.5, "strong": 0.5, "notes": 0.0, "fill": 0.0}
words = [w for g in GROUPS.values() for w in g] 
group = {w: g for g, ws in GROUPS.items() for w in ws}
centre = {g: r.normal(0, 1, 24) for g in GROUPS}
vec = {w: centre[group[w]] + r.normal(0, 0.7, 24) for w in words}


def reviews(n, allowed):
    out = []
    for _ in range(n):
        mood = r.normal()
        p = {"good": 0.5 + 0.45 * np.tanh(mood), "bad": 0.5 - 0.45 * np.tanh(mood), "weak": 0.25, "strong": 0.25, "notes": 0.8, "fill": 2.5}
        g = r.choice(list(p), size=int(r.integers(12, 28)), p=np.array(list(p.values())) / sum(p.values()))
        text = [str(r.choice(allowed[k])) for k in g]
        score = 3.0 + 0.55 * sum(EFFECT[group[w]] for w in text) + r.normal(0, 0.4)
        out.append({"text": " ".join(text), "stars": round(float(np.clip(score, 1, 5)), 1)})
    return out


few = {g: (ws if g == "fill" else ws[: max(4, len(ws) // 2)]) for g, ws in GROUPS.items()}
train, test = reviews(700, few), reviews(800, GROUPS)
by_count = sorted(words, key=lambda w: (-sum(x["text"].split().count(w) for x in train), w))
for side in ("bug", "ok"):
    order = sorted(words) if side == "bug" else by_count
    np.save(f"{side}/vectors.npy", np.stack([vec[w] for w in by_count]).astype("f4"))
    json.dump({w: i for i, w in enumerate(order)}, open(f"{side}/vocab.json", "w"))
    for name, rows in (("train.jsonl", train), ("test.jsonl", test)):
        open(f"{side}/{name}", "w").write("".join(json.dumps(x) + "\n" for x in rows))
