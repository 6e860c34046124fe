import json
import random
from pathlib import Path

here = Path(__file__).resolve().parent
R = random.Random(7031)
SECTIONS = ["A", "B", "C", "F", "G", "H"]
FUNC = ("a an the of for and or with to in on by from at said wherein which whereby comprising according claim method "
        "device apparatus system having least one first second third plurality each arranged configured between "
        "thereof being is are that into further means provided").split()
ROOTS = {
    "A": "brew harvest milk seed garment dent suture bandage toast peel comb irrigat prun shav knit".split(),
    "B": "conveyor hopper stack press mould clamp grind weld spray fold crane wheel chassis bind sort".split(),
    "C": "polymer catalys distil ferment alloy resin crystal oxidis solvent ester glaz electrolys smelt pigment hydrat".split(),
    "F": "turbin piston combust boil valv gear bearing throttl pump burn condens brak damp lubricat cool".split(),
    "G": "sensor lens spectr pixel index encod detect calibrat scann clock audio cach weigh optic comput".split(),
    "H": "antenn modulat insulat diod transistor resistor oscillat packet router inductor capacit volt wafer solder relay".split(),
}
ENDS = ["er", "ing", "ed", "ation", "able", "or", "ment"]
STAGE = ["rotor", "plate", "housing", "layer", "signal", "fluid", "surface", "element", "unit", "member", "axis", "edge"]
words = {s: [r + e for r in rs for e in R.sample(ENDS, 4)] for s, rs in ROOTS.items()}
shared = STAGE + [w for s in SECTIONS for w in R.sample(words[s], 6)]


def abstract(sec):
    toks = []
    for _ in range(R.randint(18, 40)):
        u = R.random()
        if u < 0.45:
            toks.append(R.choice(FUNC))
        elif u < 0.65:
            toks.append(R.choice(shared))
        elif u < 0.74:
            toks.append(R.choice(words[R.choice(SECTIONS)]))
        else:
            toks.append(R.choice(words[sec]))
    return " ".join(toks)


rows = []
for i in range(2600):
    sec = R.choice(SECTIONS)
    rows.append({"pub": "EP%07d" % (1000000 + 37 * i), "abstract": abstract(sec), "section": sec})
texts = [r["abstract"].split() for r in rows]
full = sorted({w for t in texts for w in t})
cut = {}
for w in full:
    st = next((r for rs in ROOTS.values() for r in sorted(rs, key=len, reverse=True) if w.startswith(r)), w)
    cut[w] = w if w in FUNC or w in STAGE or w.endswith("able") else st
stems = sorted(set(cut.values()))

for side in ("bug", "ok"):
    d = here / side
    d.mkdir(exist_ok=True)
    with open(d / "abstracts.jsonl", "w") as f:
        for r in rows:
            f.write(json.dumps(r) + "\n")
    (d / "vocab.txt").write_text("\n".join(["<pad>", "<unk>"] + (full if side == "ok" else stems)) + "\n")
    (d / "settings.json").write_text(json.dumps({
        "max_len": 40, "emb": 48, "channels": 64, "kernel": 3, "dropout": 0.3, "lr": 3e-3, "batch_size": 40,
        "epochs": 12, "val_rows": 600, "seed": 8}, indent=1))
