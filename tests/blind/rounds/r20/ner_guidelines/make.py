import os
import random

rng = random.Random(41)
SYL = ["ba", "ren", "tol", "mi", "ka", "dor", "lin", "ves", "har", "no", "sel", "tur", "gan", "wy", "ost"]


def name(k):
    return "".join(rng.choice(SYL) for _ in range(k)).capitalize()


def person():
    return [rng.choice(["Anna", "Peter", "Maria", "Jonas", "Lucy", "Omar", name(2)]), name(2) + rng.choice(["son", "ski", "ez"])]


def place():
    return [name(2) + rng.choice(["burg", "ville", "ton"])] if rng.random() < 0.7 else [rng.choice(["New", "Port", "San"]), name(2)]


def org():
    return [name(rng.randint(2, 3))] + rng.choice([["Ltd"], ["Group"], ["Bank"], ["United"], ["Motors", "AG"]])


MAKE = {"PER": person, "LOC": place, "ORG": org}
TEMPLATES = [
    "{PER} joined {ORG} in {LOC} last year .", "{ORG} said on Monday that {PER} would leave the board .",
    "The mayor of {LOC} , {PER} , met officials of {ORG} .", "Shares of {ORG} fell after the talks with {ORG} ended .",
    "{PER} and {PER} travelled from {LOC} to {LOC} .", "Police in {LOC} questioned {PER} about the fire .",
    "Monday was cold and The market stayed closed in {LOC} .", "Analysts at {ORG} expect sales to grow .",
    "The Committee will publish its Report in March .", "According to {PER} , the plant near {LOC} belongs to {ORG} .",
    "Nobody at the Ministry wanted to comment .", "{ORG} opened an office in {LOC} , {PER} said .",
]


def sentence():
    out = []
    for w in rng.choice(TEMPLATES).split():
        if w.startswith("{"):
            kind = w[1:-1]
            for i, tok in enumerate(MAKE[kind]()):
                out.append((tok, ("B-" if i == 0 else "I-") + kind))
        else:
            out.append((w, "O"))
    return out


def doc():
    return [sentence() for _ in range(rng.randint(4, 7))]


def first_only(d):
    seen, res = set(), []
    for s in d:
        keep, row = True, []
        for tok, tag in s:
            if tag[0] == "B":
                keep = tag[2:] not in seen
                seen.add(tag[2:])
            row.append((tok, tag if keep or tag == "O" else "O"))
        res.append(row)
    return res


parts = {"train": [doc() for _ in range(230)], "dev": [doc() for _ in range(30)], "test": [doc() for _ in range(90)]}
vendor = [rng.random() < 0.8 for _ in parts["train"]]
for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    for part, docs in parts.items():
        with open(f"{side}/{part}.conll", "w") as f:
            for i, d in enumerate(docs):
                if side == "bug" and part == "train" and vendor[i]:
                    d = first_only(d)
                f.write(f"-DOCSTART- {part}{i:04d}\n\n")
                for s in d:
                    f.write("".join(f"{t}\t{g}\n" for t, g in s) + "\n")
