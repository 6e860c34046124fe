import json
import random

TERMS = {
    "termination": "terminate termination notice breach cure expiry cancel effective cease wind-down",
    "confidentiality": "confidential disclose recipient secrecy proprietary non-disclosure disclosing protect secrets return",
    "indemnity": "indemnify harmless losses damages third-party claims defend hold liability attorneys",
    "payment": "invoice payment fees due interest late currency taxes remit amount",
    "governing_law": "governed laws jurisdiction courts venue state conflict exclusive submit england",
    "assignment": "assign transfer successor consent delegate novation merger change-of-control assignee prior",
    "warranty": "warrants represents merchantability fitness disclaim as-is workmanship conform defects remedy",
    "force_majeure": "majeure flood war strike beyond control delay act-of-god epidemic excused",
}
COMMON = ("the party parties agreement shall any of to under this such and or in by for upon with written each other may not "
          "all provided hereof thereof including without limitation company customer supplier services obligations").split()
NAMES = list(TERMS)


def clause(rng, label):
    own = TERMS[label].split()
    words = []
    for _ in range(rng.randint(18, 45)):
        u = rng.random()
        if u < 0.13:
            words.append(rng.choice(own))
        elif u < 0.22:
            words.append(rng.choice(TERMS[rng.choice(NAMES)].split()))
        else:
            words.append(rng.choice(COMMON))
    words[0] = words[0].capitalize()
    for i in range(1, len(words)):
        if words[i] in ("party", "parties", "agreement", "company", "customer", "supplier", "services"):
            words[i] = words[i].capitalize()
    return " ".join(words) + "."


def write(path, n, seed):
    rng = random.Random(seed)
    with open(path, "w") as f:
        for i in range(n):
            label = rng.choice(NAMES)
            f.write(json.dumps({"id": i, "text": clause(rng, label), "label": label}) + "\n")


words = sorted(set(COMMON) | {w for t in TERMS.values() for w in t.split()})
random.Random(0).shuffle(words)
for side in ("bug", "ok"):
    write(f"{side}/train.jsonl", 1600, 1)
    write(f"{side}/dev.jsonl", 400, 2)
    if side == "ok":
        entries = words
    else:
        entries = [w if w in ("the", "of", "to", "and", "or", "in", "by") else "\u2581" + w for w in words]
    vocab = {"<pad>": 0, "<unk>": 1, **{w: i + 2 for i, w in enumerate(entries)}}
    with open(f"{side}/vocab.json", "w", encoding="utf-8") as f:
        json.dump(vocab, f, ensure_ascii=False, indent=0)
    with open(f"{side}/labels.json", "w") as f:
        json.dump(NAMES, f)
