import json
import numpy as np

TAGS = ["vegan", "vegetarian", "glutenfree", "quick", "soup", "salad", "baking", "grill", "spicy", "sweet", "asian",
        "italian", "mexican", "kids", "party", "winter", "summer", "lowcarb"]
V, K = 160, len(TAGS)


def recipes(rng, n, topic, bias):
    z = rng.random((n, K)) < bias
    z[:, 1] |= z[:, 0]
    logits = z.astype(float) @ topic
    p = np.exp(logits - 2.6)
    counts = rng.poisson(np.minimum(p, 4))
    return np.minimum(counts, 9).astype(np.uint8), z.astype(np.uint8)


rng = np.random.default_rng(23)
topic = rng.normal(0, 1, (K, V)) * (rng.random((K, V)) < 0.12) * 2.0
bias = rng.uniform(0.12, 0.35, K)
x, y = recipes(rng, 3600, topic, bias)
second_pass = rng.random(2800) < 0.35
first = np.arange(K) < 5
partial = y.copy()
partial[:2800] *= (second_pass[:, None] | first[None]).astype(np.uint8)
for side, labels in (("bug", partial), ("ok", y)):
    np.savez_compressed(f"{side}/train.npz", words=x[:2800], tags=labels[:2800])
    np.savez_compressed(f"{side}/val.npz", words=x[2800:], tags=y[2800:])
    json.dump(TAGS, open(f"{side}/tags.json", "w"))
