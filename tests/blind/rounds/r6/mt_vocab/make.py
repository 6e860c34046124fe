import json, os
import numpy as np
NUM = {"en": "one two three four five six seven eight nine ten".split(), "fr": "un deux trois quatre cinq six sept huit neuf dix".split()}
ADJ = {"en": "red blue green black white small big old new heavy".split(), "fr": "rouge bleu vert noir blanc petit grand vieux neuve lourd".split()}
NOUN = {"en": "box crate truck ship barrel pallet door window chair table lamp clock".split(),
        "fr": "boite caisse camion navire tonneau palette porte fenetre chaise table lampe horloge".split()}
rng = np.random.default_rng(2)
allp = [(a, b, c) for a in range(10) for b in range(10) for c in range(12)]
rng.shuffle(allp)
def line(t):
    a, b, c = t
    return f"{NUM['en'][a].capitalize()} {ADJ['en'][b].capitalize()} {NOUN['en'][c].capitalize()}\t{NUM['fr'][a]} {NOUN['fr'][c]} {ADJ['fr'][b]}"
src = NUM["en"] + ADJ["en"] + NOUN["en"]
tgt = sorted(set(NUM["fr"] + ADJ["fr"] + NOUN["fr"]))
for folder in ("bug", "ok"):
    os.makedirs(folder, exist_ok=True)
    open(f"{folder}/train.tsv", "w").write("\n".join(map(line, allp[:950])) + "\n")
    open(f"{folder}/valid.tsv", "w").write("\n".join(map(line, allp[950:])) + "\n")
    s = [w.capitalize() for w in src] if folder == "ok" else [w.capitalize() if w in ("box", "one", "red") else w for w in src]
    json.dump({"src": ["<pad>", "<unk>", "<s>", "</s>"] + s, "tgt": ["<pad>", "<unk>", "<s>", "</s>"] + tgt}, open(f"{folder}/vocab.json", "w"), indent=0)
