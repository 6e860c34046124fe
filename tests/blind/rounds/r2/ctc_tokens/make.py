import json

import numpy as np

rng = np.random.default_rng(26)
LETTERS = list("abcdefgh")
spectra = rng.normal(0, 1, (8, 8))


def utterance():
    ids = rng.integers(0, 8, rng.integers(3, 6))
    frames = []
    for k in ids:
        frames += [spectra[k]] * int(rng.integers(3, 5)) + [np.zeros(8)] * int(rng.integers(1, 3))
    x = np.array(frames) + rng.normal(0, 0.35, (len(frames), 8))
    return {"text": "".join(LETTERS[k] for k in ids), "feats": np.round(x * 20).astype(int).tolist()}


train, dev = [utterance() for _ in range(260)], [utterance() for _ in range(80)]
for side in ("bug", "ok"):
    for name, part in (("train", train), ("dev", dev)):
        with open(f"{side}/{name}.jsonl", "w") as f:
            f.writelines(json.dumps(u, separators=(",", ":")) + "\n" for u in part)
    tokens = LETTERS + ["<blank>"] if side == "bug" else ["<blank>"] + LETTERS
    open(f"{side}/tokens.txt", "w").write("\n".join(tokens) + "\n")
