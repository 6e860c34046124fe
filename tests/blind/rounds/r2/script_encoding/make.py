import json
import random

rng = random.Random(22)
alphabets = {"russian": "абвгдежзиклмнопрстуфхцчшщыюя", "ukrainian": "абвгґдеєжзиіїклмнопрстуфхцч",
             "greek": "αβγδεζηθικλμνξοπρστυφχψω", "georgian": "აბგდევზთიკლმნოპჟრსტუფქღყ"}
weights = {l: [rng.random() ** 2 + 0.02 for _ in a] for l, a in alphabets.items()}


def name(l):
    return "".join(rng.choices(alphabets[l], weights[l], k=rng.randint(4, 9)))


def rows(n):
    return [(l, name(l)) for l in (rng.choice(sorted(alphabets)) for _ in range(n))]


train, val = rows(1600), rows(400)
for side in ("bug", "ok"):
    for part, data in (("train", train), ("val", val)):
        with open(f"{side}/{part}.txt", "w", encoding="utf-8") as f:
            f.writelines(f"{l} {w}\n" for l, w in data)
    json.dump({"encoding": "ascii" if side == "bug" else "utf-8", "epochs": 6, "lr": 0.005, "batch_size": 40},
              open(f"{side}/reader.json", "w"))
