import json
import random

rng = random.Random(9)
formal = [f"t{i}" for i in range(120)]
colloquial = [f"t{i}" for i in range(120, 240)]
rng.shuffle(colloquial)


def entry(i):
    core = rng.sample(range(120), 6)
    ask = lambda: [colloquial[k] for k in rng.sample(core, 4)] + rng.sample(colloquial, 2)
    return {"answer": [formal[k] for k in core] + rng.sample(formal, 2), "questions": [ask() for _ in range(3)]}


train, val = [entry(i) for i in range(800)], [entry(i) for i in range(150)]
for side in ("bug", "ok"):
    json.dump(train, open(f"{side}/train.json", "w"), separators=(",", ":"))
    json.dump(val, open(f"{side}/val.json", "w"))
    json.dump({"temperature": 20.0 if side == "bug" else 0.05, "dim": 48, "lr": 0.01, "epochs": 15, "batch_size": 50},
              open(f"{side}/model.json", "w"))
