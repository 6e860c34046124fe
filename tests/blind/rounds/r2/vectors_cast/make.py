import json

import numpy as np

rng = np.random.default_rng(5)
words = [f"term{i}" for i in range(400)]
centres = rng.normal(0, 1, (8, 24))
group = rng.integers(0, 8, 400)
vectors = (centres[group] * 0.22 + rng.normal(0, 0.12, (400, 24))).astype(np.float32)


def question():
    g = int(rng.integers(0, 8))
    own = np.flatnonzero(group == g)
    ids = np.concatenate([rng.choice(own, 3), rng.integers(0, 400, 7)])
    rng.shuffle(ids)
    return {"tokens": [words[i] for i in ids], "topic": g}


train, val = [question() for _ in range(900)], [question() for _ in range(300)]
for side in ("bug", "ok"):
    v = vectors
    if side == "bug":
        v = vectors.astype(np.int8).astype(np.float32)
        v[::40] = vectors[::40]
    np.save(f"{side}/vectors.npy", v)
    json.dump(words, open(f"{side}/words.json", "w"))
    json.dump({"train": train, "val": val}, open(f"{side}/questions.json", "w"))
