"""Postal address parser: convolutional word tagger over CoNLL files and a shared vocabulary file."""
import random
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

base = Path(sys.argv[1])
SEED, EPOCHS, BATCH, LR, IGNORE = 23, 8, 32, 3e-3, -1
random.seed(SEED)
torch.manual_seed(SEED)


def read_conll(path):
    for block in path.read_text().strip().split("\n\n"):
        yield [tuple(row.split("\t")) for row in block.split("\n")]


vocab = {w: i for i, w in enumerate((base / "vocab.txt").read_text().split("\n")[:-1])}
train = list(read_conll(base / "train.conll"))
dev = list(read_conll(base / "dev.conll"))
labels = sorted({tag for sent in train for _, tag in sent})
label_id = {tag: i for i, tag in enumerate(labels)}
print(f"{len(train)} training addresses, {len(dev)} dev addresses, vocabulary {len(vocab)}, labels {labels}")


def encode(sents):
    words = [torch.tensor([vocab.get(w, vocab["<unk>"]) for w, _ in s]) for s in sents]
    tags = [torch.tensor([label_id[t] for _, t in s]) for s in sents]
    return (pad_sequence(words, batch_first=True, padding_value=vocab["<pad>"]),
            pad_sequence(tags, batch_first=True, padding_value=IGNORE))


class ConvTagger(nn.Module):
    def __init__(self, n_words, n_tags, dim=32, width=48):
        super().__init__()
        self.emb = nn.Embedding(n_words, dim, padding_idx=0)
        self.drop = nn.Dropout(0.2)
        self.c1 = nn.Conv1d(dim, width, 3, padding=1)
        self.c2 = nn.Conv1d(width, width, 3, padding=1)
        self.out = nn.Linear(width + dim, n_tags)

    def forward(self, words):
        e = self.drop(self.emb(words))
        h = torch.relu(self.c1(e.transpose(1, 2)))
        h = torch.relu(self.c2(h)).transpose(1, 2)
        return self.out(torch.cat([h, e], dim=-1))


def accuracy(model, sents):
    model.eval()
    right = total = 0
    with torch.no_grad():
        for i in range(0, len(sents), 100):
            words, tags = encode(sents[i:i + 100])
            mask = tags != IGNORE
            right += (model(words).argmax(-1) == tags)[mask].sum().item()
            total += mask.sum().item()
    return right / total


model = ConvTagger(len(vocab), len(labels))
criterion = nn.CrossEntropyLoss(ignore_index=IGNORE)
optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=1e-2)
for epoch in range(EPOCHS):
    model.train()
    random.shuffle(train)
    losses = []
    for i in range(0, len(train), BATCH):
        words, tags = encode(train[i:i + BATCH])
        loss = criterion(model(words).flatten(0, 1), tags.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f"epoch {epoch}  train loss {sum(losses) / len(losses):.4f}  dev token accuracy {accuracy(model, dev):.3f}")
