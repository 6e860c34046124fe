"""Writes bug/ and ok/: train.csv, test.csv (question pairs), tokenizer.json, config.json."""
import csv, json, os
import numpy as np
HERE = os.path.dirname(os.path.abspath(__file__))
OPEN = ["what is the best way to", "can anyone here please tell me how to", "how do i quickly", "is there some easy way to", "i would like to know how to"]
ACT = ["install", "remove", "update", "clean", "repair", "copy", "reset"]
OBJ = ["printer", "router", "phone", "laptop", "camera", "engine", "window", "fridge"]
END = ["at home", "without help", "this week", "for free"]


def question(r, a, o):
    return f"{r.choice(OPEN)} {r.choice(['', 'properly '])}{ACT[a]} my {r.choice(['', 'old '])}{OBJ[o]} {r.choice(END)}"


def pairs(n, seed):
    r, out = np.random.default_rng(seed), []
    for k in range(n):
        a, o = r.integers(len(ACT)), r.integers(len(OBJ))
        b, p = a, o
        while k % 2 == 0 and (a, o) == (b, p):
            if r.random() < 0.3:
                b = r.integers(len(ACT))
            else:
                p = r.integers(len(OBJ))
        out.append((question(r, a, o), question(r, b, p), int(k % 2)))
    return out


tr, te = pairs(3000, 1), pairs(600, 2)
words = sorted({w for a, b, _ in tr for w in (a + " " + b).split()})
for name in ("bug", "ok"):
    d = os.path.join(HERE, name)
    os.makedirs(d, exist_ok=True)
    for fn, part in (("train.csv", tr), ("test.csv", te)):
        with open(os.path.join(d, fn), "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["q1", "q2", "dup"])
            w.writerows(part)
    json.dump({w: i + 2 for i, w in enumerate(words)}, open(os.path.join(d, "tokenizer.json"), "w"))
    json.dump({"max_length": 8 if name == "bug" else 20, "dim": 24, "epochs": 12, "lr": 0.005}, open(os.path.join(d, "config.json"), "w"))
