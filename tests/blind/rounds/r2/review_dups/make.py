import json, os
import random

rng = random.Random(3)
rows = []
for ext, y in (("pos", 1), ("neg", 0)):
    for line in open(os.environ["TRUELOOP_DATA"] + f"/movie-reviews/rt-polarity.{ext}", encoding="latin-1"):
        rows.append({"text": line.strip(), "label": y})
rng.shuffle(rows)
train, fresh, test = rows[:1100], rows[1100:1500], rows[1500:2200]
mixed = fresh[:120] + [dict(r) for r in rng.sample(train, 280)]
rng.shuffle(mixed)
for side, val in (("bug", mixed), ("ok", fresh)):
    for name, part in (("train", train), ("val", val), ("test", test)):
        with open(f"{side}/{name}.jsonl", "w") as f:
            f.writelines(json.dumps(r) + "\n" for r in part)
