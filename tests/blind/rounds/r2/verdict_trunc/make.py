import json
import random

rng = random.Random(4)
filler = [f"w{i}" for i in range(150)]
verdict = {"accept": ["granted", "allowed", "sustained", "upheld"], "reject": ["denied", "dismissed", "refused", "overruled"],
           "postpone": ["adjourned", "deferred", "stayed", "continued"]}


def opinion():
    label = rng.choice(sorted(verdict))
    body = rng.choices(filler, k=rng.randint(18, 26))
    tail = rng.choices(filler, k=2)
    return {"text": " ".join(body + [rng.choice(verdict[label])] + tail), "label": label}


train, val = [opinion() for _ in range(1000)], [opinion() for _ in range(250)]
for side in ("bug", "ok"):
    for name, part in (("train", train), ("val", val)):
        with open(f"{side}/{name}.jsonl", "w") as f:
            f.writelines(json.dumps(r) + "\n" for r in part)
    json.dump({"max_tokens": 16 if side == "bug" else 32, "dim": 32, "lr": 0.008, "epochs": 10, "batch_size": 32, "seed": 1},
              open(f"{side}/config.json", "w"), indent=1)
