import pathlib

import numpy as np

SECTIONS = ["politics", "business", "sport", "culture", "local"]
rng = np.random.default_rng(33)
V, D = 1600, 24
onset, vowel, coda = "b br d f g gr h k l m n p pr r s st t tr v w".split(), "a e i o u ou ie".split(), "n r l st k nd m t".split()
words = set()
while len(words) < V:
    words.add("".join(rng.choice(onset) + rng.choice(vowel) for _ in range(rng.integers(1, 3))) + str(rng.choice(coda)))
words = [str(w) for w in rng.permutation(sorted(words))]          # by corpus frequency
freq = 1 / (np.arange(V) + 15.0) ** 0.7
meaning = rng.normal(0, 1, (V, D)) / np.sqrt(D)
themes = rng.normal(0, 1, (len(SECTIONS), D))

lines = []
for i in range(2600):
    k = rng.choice(5, p=[0.22, 0.2, 0.22, 0.16, 0.2])
    angle = 1.7 * themes[k] + rng.normal(0, 0.8, D)
    p = freq * np.exp(meaning @ angle)
    picked = rng.choice(V, size=rng.integers(6, 14), p=p / p.sum())
    split = "train" if i < 600 else "test"
    lines.append(f"{split}\t{SECTIONS[k]}\t{' '.join(words[j] for j in picked)}")
vectors = (meaning * np.sqrt(D) + rng.normal(0, 0.25, (V, D))).astype(np.float16)

for side in ("ok", "bug"):
    out = pathlib.Path(__file__).parent / side
    out.mkdir(exist_ok=True)
    (out / "headlines.tsv").write_text("split\tsection\theadline\n" + "\n".join(lines) + "\n")
    np.save(out / "word_vectors.npy", vectors)
    listed = words if side == "ok" else sorted(words)
    (out / "vocab.txt").write_text("\n".join(listed) + "\n")
