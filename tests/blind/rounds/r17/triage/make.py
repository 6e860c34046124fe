import json
import random

CASES = {
    "migraine": "throbbing headaches flashing lights nauseous dizziness aura temples sensitivity".split(),
    "influenza": "shivering feverish aching muscles exhausted chills sweating coughing".split(),
    "gastritis": "burning stomachache bloating belching vomiting indigestion bloated heaviness".split(),
    "asthma": "wheezing breathlessness tightness inhaler coughing nighttime gasping breathing".split(),
    "cystitis": "urinating frequently burning bladder cloudy pelvic pressure urgency".split(),
    "allergy": "sneezing itching watery eyes runny pollen rashes hives".split(),
    "sciatica": "shooting pains numbness tingling buttocks legs sitting bending".split(),
    "anemia": "tiredness paleness dizziness palpitations breathlessness exhausted coldness fainting".split(),
    "depression": "hopelessness sleeplessness crying tiredness worthless appetite withdrawn sadness".split(),
    "angina": "squeezing chest tightness sweating exertion radiating palpitations jaws".split(),
}
FILL = ("i have had since the last few days it gets worse at night my and feel a lot of very also some when in "
        "with for about two weeks been really not sure what this is doctor please help after before").split()
ALL = sorted({w for ws in CASES.values() for w in ws})


def stem(w):
    for end in ("fulness", "lessness", "ousness", "iness", "ness", "ations", "ation", "ently", "ency", "ing", "ity", "ous", "ish", "ates", "es", "ed", "y", "s", "e"):
        if w.endswith(end) and len(w) - len(end) >= 3:
            return w[: len(w) - len(end)]
    return w


def text(rnd, label):
    words = rnd.choices(FILL, k=rnd.randint(7, 13)) + rnd.choices(CASES[label], k=rnd.randint(3, 5))
    words += rnd.choices(ALL, k=rnd.randint(0, 2))
    rnd.shuffle(words)
    s = " ".join(words)
    return s[0].upper() + s[1:] + rnd.choice([".", "", "!"])


for side in ("bug", "ok"):
    rnd = random.Random(21)
    names = sorted(CASES)
    for part, n in (("train", 1800), ("test", 600)):
        with open(f"{side}/{part}.jsonl", "w") as f:
            for i in range(n):
                lab = rnd.choice(names)
                f.write(json.dumps({"id": f"{part}-{i:05d}", "text": text(rnd, lab), "condition": lab}) + "\n")
    words = sorted(set(FILL) | set(ALL))
    if side == "bug":
        words = sorted({stem(w) for w in words})
    with open(f"{side}/vocab.json", "w") as f:
        json.dump({w: i for i, w in enumerate(["<pad>", "<unk>"] + words)}, f, indent=0)
