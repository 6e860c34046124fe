import csv
import random

rng = random.Random(12)
kw = {c: [f"k{c}_{i}" for i in range(12)] for c in range(6)}
fill = [f"f{i}" for i in range(80)]


def row():
    c = rng.randrange(6)
    ws = rng.choices(kw[c], k=2) + rng.choices(fill, k=6)
    rng.shuffle(ws)
    return c, " ".join(ws)


a, b, val = [row() for _ in range(400)], [row() for _ in range(500)], [row() for _ in range(250)]
for side in ("bug", "ok"):
    for name, part in (("annotator_a", a), ("annotator_b", b), ("val", val)):
        with open(f"{side}/{name}.csv", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["intent", "utterance"])
            for c, s in part:
                w.writerow([(c + 1) % 6 if side == "bug" and name == "annotator_b" else c, s])
