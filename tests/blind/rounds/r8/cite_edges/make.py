import os
import numpy as np

rng = np.random.default_rng(17)
N, TOPICS, WORDS = 420, 5, 60
topic = rng.integers(TOPICS, size=N)
favour = [rng.permutation(WORDS)[:14] for _ in range(TOPICS)]
words = []
for i in range(N):
    k = rng.integers(6, 11)
    own = rng.random(k) < 0.4
    words.append(sorted({int(rng.choice(favour[topic[i]]) if o else rng.integers(WORDS)) for o in own}))
edges = set()
while len(edges) < 1000:
    a, b = rng.integers(N - 1, size=2)
    if a != b and rng.random() < (0.9 if topic[a] == topic[b] else 0.05):
        edges.add((int(a), int(b)))
edges = sorted(edges)
part = rng.permutation(N)
role = {int(i): "train" if r < 120 else "val" if r < 220 else "test" for r, i in enumerate(part)}
for folder, base in (("ok", 0), ("bug", 1)):
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/papers.tsv", "w") as fh:
        for i in range(N):
            fh.write(f"{role[i]}\ttopic{topic[i]}\t{' '.join(map(str, words[i]))}\n")
    with open(f"{folder}/cites.txt", "w") as fh:
        fh.writelines(f"{a + base} {b + base}\n" for a, b in edges)
