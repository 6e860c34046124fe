"""Writes bug/ and ok/: train.jsonl, test.jsonl, vocab.txt, tokenizer_config.json."""
import json, os
import numpy as np
HERE = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(0)
syl = ["ba", "ro", "mi", "ten", "la", "ku", "ser", "vo", "dan", "pel", "gri", "hol"]
mk = lambda k: sorted({"".join(rng.choice(syl, rng.integers(2, 4))).capitalize() for _ in range(k)})
names = mk(150)
rng.shuffle(names)
PER, LOC, ORG = names[:40], names[40:80], names[80:110]
TEMPL = ["P travelled to L yesterday", "The company O opened an office in L", "P works for O", "In L the weather was fine",
         "O hired P last week", "Reporters met P and P near L", "Shares of O fell", "Nobody in L knows P", "Today O and O merged"]


def sent(r):
    w, t = [], []
    for tok in r.choice(TEMPL).split():
        pool = {"P": (PER, "PER"), "L": (LOC, "LOC"), "O": (ORG, "ORG")}.get(tok)
        if pool:
            w.append(str(r.choice(pool[0]))); t.append(pool[1])
        else:
            w.append(tok); t.append("O")
    if r.random() < 0.4:
        w = [x.upper() for x in w] if r.random() < 0.3 else w
    if r.random() < 0.35:
        w, t = w[::-1], t[::-1]
    return {"tokens": w, "tags": t}


train = [sent(np.random.default_rng(100 + i)) for i in range(1500)]
test = [sent(np.random.default_rng(90000 + i)) for i in range(400)]
words = sorted({w.lower() for s in train for w in s["tokens"]})
for name in ("bug", "ok"):
    d = os.path.join(HERE, name)
    os.makedirs(d, exist_ok=True)
    for fn, part in (("train.jsonl", train), ("test.jsonl", test)):
        open(os.path.join(d, fn), "w").write("".join(json.dumps(s) + "\n" for s in part))
    open(os.path.join(d, "vocab.txt"), "w").write("\n".join(["[PAD]", "[UNK]"] + words) + "\n")
    json.dump({"do_lower_case": name == "ok", "max_len": 10}, open(os.path.join(d, "tokenizer_config.json"), "w"))
