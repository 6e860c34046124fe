import os
import random
import sys
import torch
from torch import nn

DATA = os.environ["TRUELOOP_DATA"] + "/movie-reviews/rt-polarity."
PER_CLASS, EPOCHS, BATCH, DIM = 2200, 5, 64, 32


class Vocabulary:
    def __init__(self, path):
        with open(path, encoding="utf-8") as f:
            self.words = f.read().splitlines()
        self.index = {w: i for i, w in enumerate(self.words)}
        self.unk = self.index["<unk>"]

    def __len__(self):
        return len(self.words)

    def encode(self, line):
        return [self.index.get(w, self.unk) for w in line.split()]


def load(vocab):
    rows = []
    for label, part in enumerate(("neg", "pos")):
        with open(DATA + part, encoding="utf-8") as f:
            rows += [(vocab.encode(line), label) for line in f.read().splitlines()[:PER_CLASS]]
    random.Random(3).shuffle(rows)
    return rows[: int(0.8 * len(rows))], rows[int(0.8 * len(rows)):]


class Sentiment(nn.Module):
    def __init__(self, n_words):
        super().__init__()
        self.bag = nn.EmbeddingBag(n_words, DIM, mode="mean")
        self.out = nn.Linear(DIM, 2)

    def forward(self, flat, offsets):
        return self.out(self.bag(flat, offsets))


def collate(rows):
    flat = torch.tensor([i for ids, _ in rows for i in ids])
    sizes = torch.tensor([0] + [len(ids) for ids, _ in rows[:-1]])
    return flat, sizes.cumsum(0), torch.tensor([label for _, label in rows])


def accuracy(model, rows):
    model.eval()
    flat, offsets, labels = collate(rows)
    with torch.no_grad():
        return (model(flat, offsets).argmax(1) == labels).float().mean().item()


torch.manual_seed(3)
vocab = Vocabulary(os.path.join(sys.argv[1], "vocab.txt"))
train, valid = load(vocab)
model = Sentiment(len(vocab))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
print("words", len(vocab), "train", len(train), "valid", len(valid))
for epoch in range(EPOCHS):
    model.train()
    total = 0.0
    for idx in torch.randperm(len(train)).split(BATCH):
        flat, offsets, labels = collate([train[i] for i in idx.tolist()])
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(flat, offsets), labels)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(labels)
    print(f"epoch {epoch} loss {total / len(train):.4f} valid {accuracy(model, valid):.3f}")
print(f"valid accuracy {accuracy(model, valid):.3f}")
