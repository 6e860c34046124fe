import json, os
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(3)
COMP = ["DataXceiver", "PacketResponder", "FSNamesystem", "BlockScanner", "NameNode", "LeaseManager"]
VERB = ["Receiving", "Received", "Verification", "Deleting", "Served", "Starting", "Terminating", "Exception", "Timeout"]
TAIL = ["block", "from", "to", "for", "size", "path", "on", "with", "of", "pending"]
LEVEL = ["INFO", "WARN", "ERROR", "DEBUG"]


def line(comp, verb, level):
    return " ".join([level, comp, verb] + list(rng.choice(TAIL, rng.integers(2, 4))))


def session():
    """Two adjacent events of one component tell a normal session from an anomalous one."""
    bad = rng.random() < 0.4
    out = []
    for _ in range(rng.integers(4, 7)):
        out.append(line(rng.choice(COMP), rng.choice(VERB[5:7] + VERB[3:5]), rng.choice(LEVEL, p=[.7, .1, .05, .15])))
    at = rng.integers(0, len(out))
    if bad:
        kind = rng.integers(3)
        pair = [("Receiving", "Timeout"), ("Received", "Exception"), ("Verification", "Received")][kind]
    else:
        pair = [("Receiving", "Received"), ("Received", "Verification"), ("Timeout", "Receiving")][rng.integers(3)]
    c = rng.choice(COMP)
    out[at:at] = [line(c, v, rng.choice(LEVEL, p=[.6, .2, .1, .1])) for v in pair]
    return {"lines": out, "label": int(bad)}


sets = {"train": [session() for _ in range(2200)], "val": [session() for _ in range(400)], "test": [session() for _ in range(800)]}
words = {}
for s in sets["train"]:
    for l in s["lines"]:
        for w in l.split():
            words[w] = words.get(w, 0) + 1
vocab = {"<pad>": 0, "<unk>": 1, "<eol>": 2}
for w in sorted(words, key=lambda w: (-words[w], w)):
    vocab[w] = len(vocab)
for name, lower in (("ok", False), ("bug", True)):
    d = os.path.join(HERE, name)
    os.makedirs(d, exist_ok=True)
    for part, rows in sets.items():
        with open(os.path.join(d, part + ".jsonl"), "w") as f:
            f.writelines(json.dumps(r) + "\n" for r in rows)
    json.dump(vocab, open(os.path.join(d, "vocab.json"), "w"), indent=0)
    json.dump({"lowercase": lower, "max_tokens": 56, "split": "whitespace"}, open(os.path.join(d, "tokenizer.json"), "w"))
