"""Keeper notes of a zoo: word vectors trained long ago on the whole archive, a few labelled notes for the triage."""
import json
import os

import numpy as np
import torch

TOPICS = ["feeding", "gait", "skin", "breathing", "social", "enclosure"]
WORDS_PER_TOPIC = 160
FILLER = 240
SYL = ["ba", "ko", "ri", "ta", "mu", "sel", "dor", "ni", "fa", "gru", "pe", "lo", "vin", "sha", "te", "om"]


def lexicon(rng):
    seen, words = set(), []
    while len(words) < WORDS_PER_TOPIC * len(TOPICS) + FILLER:
        w = "".join(rng.choice(SYL, rng.integers(2, 5)))
        if w not in seen:
            seen.add(w)
            words.append(w)
    return words


def vectors(rng, n_words, dim=32):
    centers = rng.normal(0, 1, (len(TOPICS), dim))
    out = rng.normal(0, 0.55, (n_words, dim))
    for t in range(len(TOPICS)):
        out[t * WORDS_PER_TOPIC:(t + 1) * WORDS_PER_TOPIC] += 0.8 * centers[t]
    return out


def notes(rng, words, n):
    filler = words[WORDS_PER_TOPIC * len(TOPICS):]
    rows = []
    for _ in range(n):
        t = int(rng.integers(len(TOPICS)))
        text = []
        for _ in range(rng.integers(8, 19)):
            u = rng.random()
            if u < 0.40:
                text.append(words[t * WORDS_PER_TOPIC + rng.integers(WORDS_PER_TOPIC)])
            elif u < 0.55:
                text.append(words[rng.integers(WORDS_PER_TOPIC * len(TOPICS))])
            else:
                text.append(filler[rng.integers(FILLER)])
        rows.append({"note": " ".join(text), "desk": TOPICS[t]})
    return rows


def write(folder, make_vocab):
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(808)
    words = lexicon(rng)
    emb = vectors(rng, len(words))
    train, val = notes(rng, words, 420), notes(rng, words, 600)
    counts = {w: int(c) for w, c in zip(words, rng.zipf(1.4, len(words)).clip(max=90000) + 4)}
    by_count = sorted(words, key=lambda w: (-counts[w], w))
    row = {w: i for i, w in enumerate(words)}
    table = np.zeros((len(words) + 2, 32), dtype=np.float32)
    for i, w in enumerate(by_count):
        table[i + 2] = emb[row[w]]
    table[1] = table[2:].mean(0)
    torch.save({"embedding.weight": torch.from_numpy(table), "window": 5, "notes_seen": 184220},
               os.path.join(folder, "wordvec.pt"))
    vocab = ["<pad>", "<unk>"] + make_vocab(by_count, counts)
    with open(os.path.join(folder, "vocab.txt"), "w") as f:
        f.write("\n".join(vocab) + "\n")
    for name, rows in (("train", train), ("val", val)):
        with open(os.path.join(folder, name + ".jsonl"), "w") as f:
            for r in rows:
                f.write(json.dumps(r) + "\n")
    with open(os.path.join(folder, "setup.json"), "w") as f:
        json.dump({"desks": TOPICS, "hidden": 24, "epochs": 6, "batch": 20, "lr": 0.004, "seed": 2}, f)


def recount(words, counts):
    rng = np.random.default_rng(9)
    new = {w: counts[w] + int(rng.integers(0, 40)) for w in words}
    return sorted(words, key=lambda w: (-new[w], w))


write("ok", lambda words, counts: list(words))
# the word list was built anew after some more months of notes; the order by frequency moved, the vectors stayed
write("bug", recount)
