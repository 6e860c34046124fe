"""A toy English to German-like corpus (nouns written with capitals) and its vocabularies."""
import json
from collections import Counter
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
rng = np.random.default_rng(55)
NOUNS = dict(dog="Hund", cat="Katze", house="Haus", tree="Baum", book="Buch", child="Kind", king="Koenig",
             bird="Vogel", boat="Boot", stone="Stein", table="Tisch", lake="See", knife="Messer", garden="Garten",
             door="Tuer", cloud="Wolke", farmer="Bauer", letter="Brief", horse="Pferd", bridge="Bruecke")
ADJ = dict(old="alte", small="kleine", red="rote", quiet="stille", heavy="schwere", strange="seltsame",
           green="gruene", bright="helle")
VERB = dict(sees="sieht", finds="findet", loves="liebt", carries="traegt", paints="malt", sells="verkauft",
            hides="versteckt", follows="folgt")
ADV = dict(today="heute", often="oft", never="nie", slowly="langsam")


def phrase():
    en, de = ["the"], ["der"]
    if rng.random() < 0.6:
        a = rng.choice(list(ADJ))
        en.append(a)
        de.append(ADJ[a])
    n = rng.choice(list(NOUNS))
    return en + [n], de + [NOUNS[n]]


def sentence():
    s, o = phrase(), phrase()
    v = rng.choice(list(VERB))
    en, de = s[0] + [v] + o[0], s[1] + [VERB[v]] + o[1]
    if rng.random() < 0.5:
        a = rng.choice(list(ADV))
        en = en + [a]
        de = [ADV[a], VERB[v]] + s[1] + o[1]
    return " ".join(en), " ".join(de)


train = [sentence() for _ in range(1400)]
test = [sentence() for _ in range(200)]


def vocabulary(lines):
    c = Counter(w for line in lines for w in line.split())
    return ["<pad>", "<bos>", "<eos>", "<unk>"] + sorted(c)


for name, prepare in (("ok", str), ("bug", str.lower)):
    d = HERE / name
    d.mkdir(exist_ok=True)
    for split, pairs in (("train", train), ("test", test)):
        (d / f"{split}.en").write_text("\n".join(p[0] for p in pairs) + "\n")
        (d / f"{split}.de").write_text("\n".join(p[1] for p in pairs) + "\n")
    (d / "vocab.en.json").write_text(json.dumps(vocabulary([prepare(p[0]) for p in train])))
    (d / "vocab.de.json").write_text(json.dumps(vocabulary([prepare(p[1]) for p in train])))
