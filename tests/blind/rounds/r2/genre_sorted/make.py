import json
import random

rng = random.Random(24)
genres = ["comedy", "drama", "horror", "western", "musical", "thriller"]
kw = {g: [f"{g[0]}{i}" for i in range(30)] for g in genres}
fill = [f"z{i}" for i in range(100)]


def plot(g):
    ws = rng.choices(kw[g], k=3) + rng.choices(fill, k=7)
    rng.shuffle(ws)
    return {"genre": g, "plot": ws}


train = [plot(g) for g in genres for _ in range(250)]
val = [plot(rng.choice(genres)) for _ in range(300)]
for side in ("bug", "ok"):
    json.dump(train, open(f"{side}/train.json", "w"))
    json.dump(val, open(f"{side}/val.json", "w"))
    json.dump({"batch_size": 25, "shuffle": side == "ok", "num_workers": 0}, open(f"{side}/loader.json", "w"))
