import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
THREAT = ["cancel", "leave", "terminate", "switch"]
REST = "please help my the contract bill is wrong we can offer check thanks sorry line again today number yes no price month order wait".split()


def dialog(rng):
    y = int(rng.integers(2))
    who_says = "customer" if y else "agent"
    first = str(rng.choice(["agent", "customer"]))
    turns = []
    n = int(rng.integers(3, 6))
    for i in range(n):
        who = first if i % 2 == 0 else {"agent": "customer", "customer": "agent"}[first]
        turns.append(dict(who=who, text=[str(w) for w in rng.choice(REST, rng.integers(2, 6))]))
    mine = [t for t in turns if t["who"] == who_says]
    t = mine[int(rng.integers(len(mine)))]
    t["text"].insert(int(rng.integers(len(t["text"]) + 1)), str(rng.choice(THREAT)))
    for t in turns:
        t["text"] = " ".join(t["text"])
    if rng.random() < 0.05:
        y = 1 - y
    return dict(turns=turns, cancel=y)


for name in ("bug", "ok"):
    rng = np.random.default_rng(66)
    out = HERE / name
    out.mkdir(exist_ok=True)
    (out / "train.json").write_text(json.dumps([dialog(rng) for _ in range(1600)]))
    (out / "dev.json").write_text(json.dumps([dialog(rng) for _ in range(600)]))
    head = ["<pad>", "<unk>"] + (["<agent>", "<customer>"] if name == "ok" else [])
    (out / "vocab.txt").write_text("\n".join(head + sorted(THREAT + REST)) + "\n")
