import json
import random

rng = random.Random(0)
HEAD = "in the matter of the appeal before the court of the {} district case no {} between {} appellant and {} respondent heard on the {} of {}"
FACTS = ("contract tenant lease payment notice breach employee dismissal premises insurance claim vehicle damage witness "
         "evidence statute clause duty filed motion counsel argued record hearing order party delay interest sum "
         "agreement property owner signed document trial").split()
END = {"granted": ["the appeal is allowed", "we find for the appellant", "relief is awarded", "judgment below is reversed"],
       "denied": ["the appeal is dismissed", "we find for the respondent", "relief is refused", "judgment below is affirmed"],
       "remanded": ["the matter is returned", "we order fresh findings", "the lower court shall reconsider", "judgment below is vacated"]}
NAMES = "smith jones brown taylor walker hall green adams baker clark".split()
MONTHS = "january march april june july october november".split()


def doc():
    label = rng.choice(list(END))
    head = HEAD.format(rng.choice(["first", "second", "third", "ninth"]), rng.randint(10, 40), rng.choice(NAMES),
                       rng.choice(NAMES), rng.randint(1, 28), rng.choice(MONTHS))
    facts = rng.choices(FACTS, k=rng.randint(16, 30))
    end = rng.choice(END[label]) + " " + " ".join(rng.choices(FACTS, k=3))
    return {"text": " ".join([head] + facts + [end]), "label": label}


docs = [doc() for _ in range(460)]
cfg = {"seed": 3, "max_tokens": 72, "dim": 24, "dropout": 0.3, "lr": 0.003, "batch_size": 16, "epochs": 8}
for side in ("ok", "bug"):
    for name, part in (("train", docs[:360]), ("val", docs[360:])):
        with open(f"{side}/{name}.jsonl", "w") as fh:
            for d in part:
                fh.write(json.dumps(d) + "\n")
    json.dump(dict(cfg, max_tokens=72 if side == "ok" else 32), open(f"{side}/config.json", "w"), indent=1)
