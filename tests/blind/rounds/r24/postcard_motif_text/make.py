import json
from pathlib import Path

import numpy as np

MOTIFS = ["seaside", "mountains", "city", "holiday_greeting", "portrait", "railway"]
SYL = ["ba", "do", "kir", "len", "mo", "sta", "ver", "wen", "hol", "zee", "brug", "ta", "rin", "pol", "gra", "su", "mil", "or", "fe", "kan"]


def words(n, rng):
    out = []
    while len(out) < n:
        w = "".join(rng.choice(SYL, rng.integers(2, 5)))
        if w not in out:
            out.append(w)
    return out


def card(motif, common, lexicon, rng):
    text = list(rng.choice(common, rng.integers(4, 10)))
    text += list(rng.choice(lexicon[motif], rng.integers(2, 5)))
    if rng.random() < 0.5:
        text += list(rng.choice(lexicon[int(rng.integers(len(MOTIFS)))], 1))
    rng.shuffle(text)
    return {"text": " ".join(text), "motif": MOTIFS[motif]}


here = Path(__file__).parent
rng = np.random.default_rng(77)
vocab = words(1700, rng)
order = rng.permutation(1700)
common = [vocab[i] for i in order[:200]]
lexicon = [[vocab[i] for i in order[200 + 250 * m:450 + 250 * m]] for m in range(6)]
centre = rng.normal(0, 1, (7, 32))
group = {w: 6 for w in common} | {w: m for m, ws in enumerate(lexicon) for w in ws}
vectors = {w: 0.8 * centre[group[w]] + rng.normal(0, 1.2, 32) for w in vocab}
cards = [card(int(rng.integers(6)), common, lexicon, rng) for _ in range(1500)]

current = ["<pad>", "<unk>"] + sorted(vocab)
gone = ["aan", "aanzicht", "ach", "adres", "al", "allen", "alhier", "als", "ansicht", "avond", "azuur"]
older = ["<pad>", "<unk>"] + sorted(gone + sorted(vocab)[:-len(gone)])
table = np.stack([np.zeros(32), np.zeros(32)] + [vectors[w] for w in sorted(vocab)]).astype(np.float16)
for side in ("bug", "ok"):
    d = here / side
    d.mkdir(exist_ok=True)
    (d / "vocab.txt").write_text("\n".join(older if side == "bug" else current) + "\n")
    np.save(d / "word_vectors.npy", table)
    for name, part in (("train", cards[:500]), ("valid", cards[500:])):
        (d / f"{name}.jsonl").write_text("".join(json.dumps(c) + "\n" for c in part))
