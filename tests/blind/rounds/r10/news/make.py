import json
import os

import numpy as np

TAGS = ["politics", "sport", "business", "crime", "health", "weather", "culture", "science", "travel",
        "education", "energy", "local"]  # by frequency


def items(n, seed):
    world = np.random.default_rng(9)
    words = np.array([f"w{i:03d}" for i in range(800)])
    topic = world.dirichlet(np.full(800, 0.03), len(TAGS))
    common = world.dirichlet(np.full(800, 0.5))
    rng = np.random.default_rng(seed)
    rate = np.linspace(0.3, 0.08, len(TAGS))
    texts, hot = [], (rng.random((n, len(TAGS))) < rate).astype(np.uint8)
    for i in range(n):
        if not hot[i].any():
            hot[i, rng.choice(len(TAGS), p=rate / rate.sum())] = 1
        mix = 0.35 * common + 0.65 * topic[hot[i] == 1].mean(0)
        texts.append(" ".join(rng.choice(words, rng.integers(18, 45), p=mix / mix.sum())))
    return texts, hot


def main():
    for side in ("bug", "ok"):
        for name, n, seed in (("train", 4000, 1), ("valid", 1000, 2)):
            os.makedirs(f"{side}/{name}", exist_ok=True)
            texts, hot = items(n, seed)
            tags = list(TAGS)
            if side == "bug" and name == "valid":
                tags = sorted(TAGS)  # this file was written with the columns in alphabetic order
                hot = hot[:, [TAGS.index(t) for t in tags]]
            with open(f"{side}/{name}/items.jsonl", "w") as f:
                f.writelines(json.dumps({"id": f"{name}-{i}", "text": t}) + "\n" for i, t in enumerate(texts))
            np.save(f"{side}/{name}/targets.npy", hot)
            json.dump(tags, open(f"{side}/{name}/tags.json", "w"))
        json.dump({"batch_size": 64, "lr": 0.004, "epochs": 8}, open(f"{side}/options.json", "w"))


if __name__ == "__main__":
    main()
