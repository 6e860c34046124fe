import json
import random

rng = random.Random(8)
first = [f"fn{i}" for i in range(30)]
places = [f"pl{i}" for i in range(30)]
orgs = [f"or{i}" for i in range(30)]
verbs = "met visited joined left called praised sued hired saw told".split()
fill = "the a yesterday today often never again with and of".split()


def sentence():
    out = []
    for _ in range(rng.randint(2, 4)):
        out += [(w, "O") for w in rng.choices(fill, k=rng.randint(1, 2))]
        kind = rng.randrange(3)
        out.append((rng.choice([first, places, orgs][kind]), ["PER", "LOC", "ORG"][kind]))
        out.append((rng.choice(verbs), "O"))
    return out


train, val = [sentence() for _ in range(960)], [sentence() for _ in range(200)]
for side in ("bug", "ok"):
    for name, part in (("train", train), ("dev", val)):
        with open(f"{side}/{name}.conll", "w") as f:
            for s in part:
                f.writelines(f"{w} {t}\n" for w, t in s)
                f.write("\n")
    json.dump({"seed": 6, "batch_size": 16, "accumulate": 64 if side == "bug" else 2, "lr": 0.01, "epochs": 6, "dim": 24, "hidden": 24},
              open(f"{side}/config.json", "w"), indent=1)
