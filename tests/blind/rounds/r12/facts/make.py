"""Short reports with a question and the place of the answer (character offset, as in SQuAD)."""
import json
import re
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
rng = np.random.default_rng(26)
WHO = ["mary", "john", "sandra", "daniel", "olga", "peter", "yusuf", "ingrid"]
WHERE = ["kitchen", "garden", "office", "harbour", "library", "cellar", "station", "museum", "bakery", "tower"]
VERB = ["went to the", "is now in the", "walked to the", "hurried to the"]


def item():
    people = rng.choice(WHO, rng.integers(3, 6), replace=False)
    places = rng.choice(WHERE, len(people), replace=False)
    ask = rng.integers(len(people))
    text, start = "", None
    for k, (p, w) in enumerate(zip(people, places)):
        words = f"{p} {VERB[rng.integers(4)]} {w} .".split()
        for j, word in enumerate(words):
            if word == w and k == ask:
                start = len(text)
            text += word
            text += rng.choice([" ", "  ", "\n   "], p=[0.62, 0.28, 0.10])
    return {"context": text, "question": f"where is {people[ask]} ?",
            "answer": {"text": str(places[ask]), "answer_start": start}}


def squeeze(it):
    return {**it, "context": re.sub(r"\s+", " ", it["context"])}


train, test = [item() for _ in range(1300)], [item() for _ in range(300)]
for name, change in (("ok", dict), ("bug", squeeze)):
    d = HERE / name
    d.mkdir(exist_ok=True)
    for split, items in (("train", train), ("test", test)):
        (d / f"{split}.json").write_text(json.dumps([change(i) for i in items], indent=0))
