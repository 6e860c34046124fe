import json
import random

R = random.Random(5)
codes = {
    "I10": "hypertension elevated blood pressure amlodipine lisinopril",
    "E11": "diabetes glucose metformin polyuria hba1c insulin",
    "J45": "asthma wheezing salbutamol bronchospasm inhaler",
    "J18": "pneumonia infiltrate consolidation fever crackles amoxicillin",
    "I50": "oedema orthopnoea furosemide cardiomegaly failure ejection",
    "N18": "creatinine dialysis nephropathy gfr proteinuria",
    "K21": "reflux heartburn omeprazole regurgitation",
    "F32": "depressed insomnia anhedonia sertraline mood",
    "M54": "lumbar back sciatica stiffness ibuprofen",
    "G43": "migraine photophobia aura sumatriptan headache",
}
fill = ("patient presents with history of the and reports since on examination stable admitted for was given known "
        "daily continue follow up review clinic denies chest abdomen normal today mild severe chronic acute").split()
keys = list(codes)
prev = [.3, .3, .2, .15, .2, .15, .2, .2, .25, .15]


def note():
    lab = [k for k, p in zip(keys, prev) if R.random() < p] or [R.choice(keys)]
    w = []
    for k in lab:
        w += R.sample(codes[k].split(), R.choice([1, 2, 2, 3]))
    for k in keys:
        if k not in lab and R.random() < .05:
            w.append(R.choice(codes[k].split()))
    w += [R.choice(fill) for _ in range(R.randint(12, 24))]
    w += ["%d mg" % R.choice([5, 10, 20, 40, 500])] * R.randint(0, 2) + ["bp %d/%d" % (R.randint(105, 180), R.randint(60, 105))]
    R.shuffle(w)
    w[0] = w[0].capitalize()
    return {"note": " ".join(w) + ".", "codes": lab}


sets = {"train": [note() for _ in range(2400)], "heldout": [note() for _ in range(800)]}
words = sorted(set(" ".join(codes.values()).split()) | set(fill))
small = ["mg", "bp", "5", "10", "20", "40", "500"]
for side in ("bug", "ok"):
    for n, rows in sets.items():
        with open(f"{side}/{n}.jsonl", "w") as f:
            for r in rows:
                f.write(json.dumps(r) + "\n")
    with open(f"{side}/vocab.txt", "w") as f:
        f.write("[PAD]\n[UNK]\n" + "\n".join(small) + "\n")
        f.write("\n".join(w.upper() if side == "bug" else w for w in words) + "\n")
    json.dump(keys, open(f"{side}/codes.json", "w"))
