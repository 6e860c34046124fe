import unicodedata
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
BASE_ON = ["b", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "br", "st", "kl", "gr"]
BASE_V = ["a", "e", "i", "o", "u", "aa", "ei"]
BASE_C = ["", "n", "r", "l", "t", "s", "nd", "rk"]
# vowel shifts of the four dialects: vowel -> (letter, probability)
RULES = {
    "north": {"o": ("ö", .45), "a": ("ä", .35), "e": ("é", .15), "u": ("ü", .1)},
    "coast": {"o": ("ô", .4), "a": ("å", .35), "e": ("é", .3), "i": ("î", .15)},
    "hills": {"u": ("ü", .45), "o": ("ö", .2), "e": ("è", .35), "a": ("å", .1)},
    "plain": {"e": ("é", .3), "u": ("û", .4), "o": ("ö", .25), "i": ("î", .1)},
}


def main():
    rng = np.random.default_rng(5)
    words = ["".join(str(rng.choice(BASE_ON)) + str(rng.choice(BASE_V)) + str(rng.choice(BASE_C))
                     for _ in range(rng.integers(1, 4))) for _ in range(500)]
    freq = 1 / np.arange(3, 503)
    freq /= freq.sum()
    names = sorted(RULES)
    habits = {d: rng.permutation(freq) * .15 + freq * .85 for d in names}
    rows = []
    for _ in range(2000):
        d = names[rng.integers(4)]
        text = " ".join(rng.choice(words, size=rng.integers(5, 10), p=habits[d]))
        spoken = ""
        for c in text:
            if c in RULES[d] and rng.random() < RULES[d][c][1]:
                c = RULES[d][c][0]
            elif rng.random() < .02:
                c = str(rng.choice(list("aeioutnsöäéü")))
            spoken += c
        rows.append((d, spoken))
    for side in ("bug", "ok"):
        folder = HERE / side
        folder.mkdir(exist_ok=True)
        form = {"bug": "NFD", "ok": "NFC"}[side]
        for name, part, f in (("train.tsv", rows[:1500], form), ("val.tsv", rows[1500:], "NFC")):
            with open(folder / name, "w", encoding="utf-8", newline="\n") as fh:
                fh.write("dialect\tsentence\n")
                for d, s in part:
                    fh.write(f"{d}\t{unicodedata.normalize(f, s)}\n")


main()
