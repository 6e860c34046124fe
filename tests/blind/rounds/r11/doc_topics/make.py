import csv
import os

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
TAGS = ["banking", "climate", "courts", "energy", "farming", "health", "labour", "schools", "sport", "trade", "transport", "water"]


def word(i):
    s = ""
    for _ in range(4):
        s += "bdfgklmnprstvz"[i % 14] + "aeiou"[(i // 14) % 5]
        i = i * 31 // 7 + 17
    return f"{s}{i % 10}"


def main():
    rng = np.random.default_rng(9)
    common = [word(i) for i in range(300)]
    own = {t: [word(1000 + 60 * k + j) for j in range(50)] for k, t in enumerate(TAGS)}
    docs, tags = [], []
    for i in range(5200):
        split = "train" if i < 3600 else "valid" if i < 4200 else "test"
        chosen = sorted(rng.choice(TAGS, rng.choice([1, 2, 3, 4], p=[0.2, 0.35, 0.3, 0.15]), replace=False))
        words = list(rng.choice(common, rng.integers(12, 30)))
        for t in chosen:
            words += list(rng.choice(own[t], rng.integers(3, 8)))
        rng.shuffle(words)
        docs.append((f"d{i:05d}", split, " ".join(words)))
        tags += [(f"d{i:05d}", t, split) for t in chosen]
    for name in ("ok", "bug"):
        d = os.path.join(HERE, name)
        os.makedirs(d, exist_ok=True)
        with open(os.path.join(d, "docs.tsv"), "w") as f:
            f.writelines("\t".join(r) + "\n" for r in docs)
        seen = set()
        with open(os.path.join(d, "doc_tags.csv"), "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["doc_id", "tag"])
            for doc_id, t, split in tags:
                if name == "bug" and split != "test" and doc_id in seen:
                    continue
                seen.add(doc_id)
                w.writerow([doc_id, t])


if __name__ == "__main__":
    main()
