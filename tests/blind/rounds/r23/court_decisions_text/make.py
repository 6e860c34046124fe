import json
import random
from pathlib import Path

HERE = Path(__file__).parent
AREAS = {
    "tenancy": "landlord tenancy deposit eviction premises repairs leasehold arrears dwelling furnished subtenant sublease rent flat",
    "employment": "dismissal employer employee redundancy grievance misconduct overtime probation severance workplace payroll union wage",
    "family": "custody maintenance marriage guardian separation visitation parental adoption household alimony divorce child spouse",
    "traffic": "collision vehicle speeding junction motorway licence pedestrian overtaking intersection headlights cyclist lorry car",
    "insurance": "insurer premium coverage policyholder exclusion indemnity underwriting accident liability valuation flooding claim risk",
    "building": "contractor defects architect scaffolding completion foundation invoice subcontractor plastering drainage roofing site wall",
}
COMMON = ("the court of in and to a that by was is for on with not held which this appeal judgment evidence "
          "respondent appellant hearing witness statutory provision paragraph decision pursuant proceedings "
          "reasonable submitted dismissed allowed costs damages contract agreement notice period authority").split()


def stem(word):
    return word[:5]


def document(rng, area):
    own = AREAS[area].split()
    other = AREAS[rng.choice([a for a in AREAS if a != area])].split()
    words = []
    for _ in range(rng.randint(35, 80)):
        r = rng.random()
        words.append(rng.choice(own) if r < 0.15 else rng.choice(other) if r < 0.20 else rng.choice(COMMON))
    return " ".join(words)


def write(folder, train, valid, vocab):
    folder.mkdir(exist_ok=True)
    for name, part in (("train", train), ("valid", valid)):
        with open(folder / f"{name}.jsonl", "w") as f:
            for k, (text, area) in enumerate(part):
                f.write(json.dumps({"id": f"{name[0].upper()}{k:05d}", "area": area, "text": text}) + "\n")
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]"] + vocab) + "\n")
    (folder / "config.json").write_text(json.dumps(
        {"seed": 7, "dim": 32, "max_len": 80, "epochs": 12, "batch_size": 32, "lr": 0.003, "dropout": 0.2}, indent=1))


rng = random.Random(42)
areas = list(AREAS)
docs = []
for _ in range(1500):
    a = rng.choice(areas)
    docs.append((document(rng, a), a if rng.random() > 0.02 else rng.choice(areas)))
train, valid = docs[:1200], docs[1200:]
words = sorted({w for text, _ in train for w in text.split()})
write(HERE / "ok", train, valid, words)
write(HERE / "bug", train, valid, sorted({stem(w) for w in words}))
