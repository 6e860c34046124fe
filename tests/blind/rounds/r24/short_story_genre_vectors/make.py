"""Writes bug/ and ok/: short stories with a genre, a vocabulary and pretrained word vectors."""
import json
from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).resolve().parent
GENRES = ["ghost", "crime", "romance", "satire", "adventure", "fable"]
WORDS, DIM, STORIES, THEMES = 5000, 32, 900, 24


def make_words(rng):
    cons, vow = list("bdfgklmnprstvz"), list("aeiou")
    words = set()
    while len(words) < WORDS:
        words.add("".join(rng.choice(cons) + rng.choice(vow) for _ in range(rng.integers(2, 5))))
    return sorted(words)


def main():
    rng = np.random.default_rng(77)
    vocab = make_words(rng)
    rank = rng.permutation(WORDS)                      # rank 0 is the most frequent word
    vocab = [vocab[i] for i in np.argsort(rank)]       # written by frequency, as the tokenizer does
    freq = 1 / (np.arange(WORDS) + 30) ** 0.7
    theme = rng.integers(0, THEMES, WORDS)
    theme_dir = rng.normal(size=(THEMES, DIM))
    vectors = 0.8 * theme_dir[theme] + rng.normal(0, 0.7, (WORDS, DIM))
    genre_theme = rng.dirichlet(np.full(THEMES, 0.6), len(GENRES))

    stories = []
    for i in range(STORIES):
        g = int(rng.integers(0, len(GENRES)))
        mix = 0.33 * genre_theme[g] + 0.67 * rng.dirichlet(np.full(THEMES, 0.7))
        p = freq * mix[theme]
        ids = rng.choice(WORDS, size=int(rng.integers(35, 70)), p=p / p.sum())
        stories.append({"id": f"s{i:04d}", "genre": GENRES[g], "text": " ".join(vocab[j] for j in ids)})

    alphabetical = np.argsort(np.array(vocab))
    for side, table in (("ok", vectors), ("bug", vectors[alphabetical])):
        folder = HERE / side
        folder.mkdir(exist_ok=True)
        with open(folder / "stories.jsonl", "w") as f:
            f.writelines(json.dumps(s) + "\n" for s in stories)
        (folder / "vocab.txt").write_text("\n".join(vocab) + "\n")
        table = torch.tensor(table, dtype=torch.float32)
        torch.save({"embedding.weight": table, "dim": DIM, "corpus": "magazines-1890-1930"}, folder / "word_vectors.pt")


if __name__ == "__main__":
    main()
