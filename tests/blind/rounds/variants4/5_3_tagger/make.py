import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
DRUGS = ["aspirin", "metformin", "lisinopril", "atorvastatin", "warfarin", "amoxicillin", "ramipril", "insulin", "digoxin", "codeine"]
UNITS = ["mg", "ml", "units", "mcg"]
FREQS = ["daily", "twice", "weekly", "nightly", "hourly"]
FILL = ["patient", "reports", "pain", "was", "given", "continue", "the", "with", "food", "and", "stop", "after", "review", "home", "days", "5", "10", "prior", "notes"]


def sentence(rng):
    toks, tags = [], []
    for _ in range(int(rng.integers(1, 4))):
        k = int(rng.integers(1, 5))
        toks += list(rng.choice(FILL, k))
        tags += ["O"] * k
        if rng.random() < 0.8:
            toks.append(str(rng.choice(DRUGS)))
            tags.append("DRUG")
            if rng.random() < 0.7:
                toks += [str(rng.choice(["5", "10", "20", "50", "100"])), str(rng.choice(UNITS))]
                tags += ["DOSE"] * 2
            if rng.random() < 0.6:
                toks.append(str(rng.choice(FREQS)))
                tags.append("FREQ")
    end = int(rng.random() < 0.7)
    return toks + ["."] * end, tags + ["O"] * end


def write(path, n, rng, slip):
    with open(path, "w") as fh:
        for i in range(n):
            toks, tags = sentence(rng)
            toks = [str(t) for t in toks]
            toks = [t[:-1] + "x" if len(t) > 3 and rng.random() < 0.12 else t for t in toks]
            quoted = rng.random() < 0.6
            if quoted:
                toks = ['"'] + toks
                tags = tags + ["O"] if slip else ["O"] + tags
            fh.write(json.dumps(dict(id=i, tokens=toks, tags=tags)) + "\n")


for name in ("bug", "ok"):
    rng = np.random.default_rng(41)
    out = HERE / name
    out.mkdir(exist_ok=True)
    write(out / "train.jsonl", 1500, rng, name == "bug")
    write(out / "dev.jsonl", 400, rng, False)
