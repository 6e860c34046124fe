"""Sentence polarity on the movie review snippets; vocabulary and settings come from the run folder."""
import json
import os
import random
import re
import sys

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

RUN = sys.argv[1]
DATA = os.path.join(os.environ["TRUELOOP_DATA"], "movie-reviews")
TOKEN = re.compile(r"[a-z0-9']+|[.,!?;:]")


class Vocabulary:
    def __init__(self, path):
        with open(path) as f:
            self.index = json.load(f)
        self.pad, self.unk = self.index["<pad>"], self.index["<unk>"]

    def __len__(self):
        return len(self.index)

    def encode(self, sentence, max_len):
        tokens = TOKEN.findall(sentence.lower())[:max_len]
        return torch.tensor([self.index.get(t, self.unk) for t in tokens] or [self.unk])


def read_sentences():
    pairs = []
    for name, label in (("rt-polarity.pos", 1.0), ("rt-polarity.neg", 0.0)):
        with open(os.path.join(DATA, name), encoding="latin-1") as f:
            pairs += [(line.strip(), label) for line in f if line.strip()]
    return pairs


class PolarityNet(nn.Module):
    def __init__(self, vocab, cfg):
        super().__init__()
        self.pad = vocab.pad
        self.emb = nn.Embedding(len(vocab), cfg["embedding"], padding_idx=vocab.pad)
        self.drop = nn.Dropout(cfg["dropout"])
        self.fc = nn.Sequential(nn.Linear(cfg["embedding"], cfg["hidden"]), nn.ReLU(), nn.Linear(cfg["hidden"], 1))

    def forward(self, ids):
        keep = (ids != self.pad).unsqueeze(-1).float()
        mean = (self.emb(ids) * keep).sum(1) / keep.sum(1)
        return self.fc(self.drop(mean)).squeeze(-1)


def accuracy(model, loader):
    model.eval()
    right = n = 0
    with torch.no_grad():
        for ids, y in loader:
            right += ((model(ids) > 0).float() == y).sum().item()
            n += len(y)
    return right / n


def main():
    with open(os.path.join(RUN, "config.json")) as f:
        cfg = json.load(f)
    random.seed(cfg["seed"])
    torch.manual_seed(cfg["seed"])
    vocab = Vocabulary(os.path.join(RUN, "vocab.json"))

    pairs = sorted(set(read_sentences()))
    random.shuffle(pairs)
    data = [(vocab.encode(s, cfg["max_len"]), y) for s, y in pairs]
    cut = int(0.85 * len(data))

    def collate(items):
        ids, labels = zip(*items)
        return pad_sequence(ids, batch_first=True, padding_value=vocab.pad), torch.tensor(labels)

    train = DataLoader(data[:cut], batch_size=cfg["batch_size"], shuffle=True, collate_fn=collate)
    valid = DataLoader(data[cut:], batch_size=256, collate_fn=collate)
    print(f"{cut} training sentences, {len(data) - cut} validation sentences, vocabulary {len(vocab)}")

    model = PolarityNet(vocab, cfg)
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    loss_fn = nn.BCEWithLogitsLoss()
    for epoch in range(1, cfg["epochs"] + 1):
        model.train()
        total = 0.0
        for ids, y in train:
            loss = loss_fn(model(ids), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(train):.4f} val accuracy {accuracy(model, valid):.4f}")
    print(f"validation accuracy {accuracy(model, valid):.4f}")


if __name__ == "__main__":
    main()
