import csv
import json
import os
import unicodedata

import numpy as np

GENERIC = {  # altitude of the feature in metres
    "sgùrr": 930, "beinn": 780, "càrn": 850, "stob": 900, "meall": 640, "cnoc": 210, "tom": 160, "dùn": 95, "creag": 420,
    "bealach": 560, "coire": 610, "gleann": 180, "srath": 110, "allt": 330, "abhainn": 70, "lochan": 470, "loch": 190,
    "inbhir": 8, "tràigh": 2, "rubha": 12, "eilean": 25, "òb": 3, "lòn": 60, "càrnan": 140, "màm": 500, "bràigh": 430,
    "clèit": 240, "mòine": 260, "druim": 350, "leitir": 230, "stùc": 880, "bàgh": 4, "fèith": 400, "còmhdhail": 75,
}
SPECIFIC = {  # factor on the altitude
    "mòr": 1.18, "beag": 0.80, "dearg": 1.05, "dubh": 0.97, "bàn": 1.02, "glas": 1.10, "liath": 1.12, "buidhe": 0.88,
    "àrd": 1.35, "ìosal": 0.60, "fada": 0.95, "meadhanach": 1.0, "uachdar": 1.30, "ìochdar": 0.65, "gorm": 1.06,
    "breac": 1.0, "garbh": 1.09, "mìn": 0.85, "caol": 0.92, "leathann": 0.94, "cùl": 0.90, "fiadh": 1.08,
}
PEOPLE = ["fhearchair", "dòmhnaill", "iain", "mhuire", "phàdraig", "eòghainn", "chaluim", "sheumais", "mhàiri", "ruairidh"]
ARTICLE = ["na", "an", "nam", "a'"]


def main():
    rng = np.random.default_rng(72)
    rows, generic, specific = [], list(GENERIC), list(SPECIFIC)
    for i in range(2200):
        words = [generic[rng.integers(len(generic))]]
        alt = GENERIC[words[0]] + 10.0
        if rng.random() < 0.25:
            other = generic[rng.integers(len(generic))]
            words += [ARTICLE[rng.integers(4)], other]
            alt = 0.65 * alt + 0.35 * (GENERIC[other] + 10.0)
        for s in rng.choice(specific, int(rng.integers(0, 3)), replace=False):
            words.append(str(s))
            alt *= SPECIFIC[str(s)]
        if rng.random() < 0.3:
            words.append(PEOPLE[rng.integers(len(PEOPLE))])
        rows.append([f"{i + 1:05d}", " ".join(words), f"{max(alt * np.exp(0.06 * rng.normal()), 1.0):.0f}"])
    tokens = ["<pad>", "<unk>"] + sorted(unicodedata.normalize("NFC", t) for t in generic + specific + PEOPLE + ARTICLE)
    vocabulary = {t: k for k, t in enumerate(tokens)}

    for side, form in (("ok", "NFC"), ("bug", "NFD")):
        os.makedirs(side, exist_ok=True)
        with open(f"{side}/gazetteer.csv", "w", newline="", encoding="utf-8") as f:
            w = csv.writer(f)
            w.writerow(["record", "name", "altitude_m"])
            w.writerows([r, unicodedata.normalize(form, n), a] for r, n, a in rows)
        with open(f"{side}/vocabulary.json", "w", encoding="utf-8") as f:
            json.dump(vocabulary, f, ensure_ascii=False, indent=0)
        with open(f"{side}/settings.json", "w") as f:
            json.dump({"width": 32, "heads": 4, "layers": 2, "dropout": 0.05, "lr": 0.003, "epochs": 8, "batch_size": 64,
                       "val_fraction": 0.2, "seed": 19}, f, indent=2)


if __name__ == "__main__":
    main()
