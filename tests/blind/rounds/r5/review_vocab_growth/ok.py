import os
"""Sentiment of one-line reviews, bag of embeddings; the vocabulary grows once rare words are counted."""
import random
from collections import Counter
import torch
from torch import nn

DATA = os.environ["TRUELOOP_DATA"] + "/movie-reviews/rt-polarity."
MAX_LEN = 30


def read(n=1800):
    rows = []
    for label, part in enumerate(("neg", "pos")):
        lines = open(DATA + part, encoding="utf-8").read().splitlines()
        rows += [(line.split()[:MAX_LEN], label) for line in lines[:n]]
    random.Random(5).shuffle(rows)
    return rows


class BagClassifier(nn.Module):
    def __init__(self, vocab_size, dim=32):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, dim, padding_idx=0)
        self.out = nn.Linear(dim, 2)

    def grow(self, vocab_size):
        old = self.embedding.weight.data
        self.embedding = nn.Embedding(vocab_size, old.shape[1], padding_idx=0)
        self.embedding.weight.data[: len(old)] = old

    def forward(self, ids):
        mask = (ids > 0).float().unsqueeze(2)
        pooled = (self.embedding(ids) * mask).sum(1) / mask.sum(1).clamp(min=1)
        return self.out(pooled)


def encode(rows, vocab):
    ids = torch.zeros(len(rows), MAX_LEN, dtype=torch.long)
    for i, (words, _) in enumerate(rows):
        known = [vocab.get(w, 1) for w in words]
        ids[i, : len(known)] = torch.tensor(known)
    return ids, torch.tensor([label for _, label in rows])


def score(model, ids, labels):
    model.eval()
    with torch.no_grad():
        return (model(ids).argmax(1) == labels).float().mean().item()


torch.manual_seed(5)
rows = read()
train_rows, valid_rows = rows[:2800], rows[2800:]
counts = Counter(w for words, _ in train_rows for w in words)
vocab = {w: i + 2 for i, (w, _) in enumerate(counts.most_common(500))}
model = BagClassifier(len(vocab) + 2)
for word, seen in counts.items():
    if seen >= 2 and word not in vocab:
        vocab[word] = len(vocab) + 2
model.grow(len(vocab) + 2)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
print("vocabulary", len(vocab) + 2)
x_train, y_train = encode(train_rows, vocab)
x_valid, y_valid = encode(valid_rows, vocab)
best = 0.0
for epoch in range(8):
    model.train()
    total = 0.0
    for idx in torch.randperm(len(x_train)).split(64):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x_train[idx]), y_train[idx])
        loss.backward()
        optimizer.step()
        total += loss.item() * len(idx)
    print(f"epoch {epoch} loss {total / len(x_train):.4f} valid {score(model, x_valid, y_valid):.3f}")
print(f"train {score(model, x_train, y_train):.3f} valid {score(model, x_valid, y_valid):.3f}")
