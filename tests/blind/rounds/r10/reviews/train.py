"""Sentence polarity with a GRU over frozen pretrained word vectors (packed sequences)."""
import json
import re

import numpy as np
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader

TOKEN = re.compile(r"[a-z']+|[!?.,]")


def tokenize(text):
    return TOKEN.findall(text.lower())


class Vocab:
    def __init__(self, path):
        with open(path, encoding="utf-8") as f:
            words = f.read().split("\n")
        self.index = {w: i for i, w in enumerate(words) if w}
        self.unk = self.index["<unk>"]
        self.pad = self.index["<pad>"]

    def __len__(self):
        return len(self.index)

    def encode(self, text, max_len):
        ids = [self.index.get(t, self.unk) for t in tokenize(text)][:max_len]
        return torch.tensor(ids or [self.unk])


def read_tsv(path, vocab, max_len):
    rows = []
    with open(path, encoding="utf-8") as f:
        for line in f:
            label, text = line.rstrip("\n").split("\t", 1)
            rows.append((vocab.encode(text, max_len), int(label)))
    return rows


class PolarityGRU(nn.Module):
    def __init__(self, vectors, pad, hidden):
        super().__init__()
        self.emb = nn.Embedding.from_pretrained(vectors, freeze=True, padding_idx=pad)
        self.gru = nn.GRU(vectors.shape[1], hidden, batch_first=True)
        self.drop = nn.Dropout(0.3)
        self.out = nn.Linear(hidden, 2)

    def forward(self, ids, lengths):
        packed = pack_padded_sequence(self.emb(ids), lengths, batch_first=True, enforce_sorted=False)
        _, h = self.gru(packed)
        return self.out(self.drop(h[-1]))


def collate_with(pad):
    def collate(rows):
        ids, labels = zip(*rows)
        lengths = torch.tensor([len(i) for i in ids])
        return pad_sequence(ids, batch_first=True, padding_value=pad), lengths, torch.tensor(labels)
    return collate


@torch.no_grad()
def evaluate(model, loader, criterion):
    model.eval()
    loss = hits = n = 0
    for ids, lengths, labels in loader:
        logits = model(ids, lengths)
        loss += criterion(logits, labels).item() * len(labels)
        hits += (logits.argmax(1) == labels).sum().item()
        n += len(labels)
    return loss / n, hits / n


def main():
    with open("params.json") as f:
        P = json.load(f)
    torch.manual_seed(P["seed"])
    vocab = Vocab("vocab.txt")
    vectors = torch.from_numpy(np.load("vectors.npy"))
    assert len(vocab) == len(vectors), "vocabulary and vectors differ in size"
    train = read_tsv("train.tsv", vocab, P["max_len"])
    valid = read_tsv("valid.tsv", vocab, P["max_len"])
    known = np.mean([(ids != vocab.unk).float().mean().item() for ids, _ in train])
    print(f"{len(train)} train / {len(valid)} valid sentences, {len(vocab)} words, {known:.2f} of tokens known")

    collate = collate_with(vocab.pad)
    train_loader = DataLoader(train, batch_size=P["batch_size"], shuffle=True, collate_fn=collate)
    valid_loader = DataLoader(valid, batch_size=200, collate_fn=collate)
    model = PolarityGRU(vectors, vocab.pad, P["hidden"])
    opt = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=P["lr"])
    criterion = nn.CrossEntropyLoss()
    best = 0.0
    for epoch in range(1, P["epochs"] + 1):
        model.train()
        total = 0.0
        for ids, lengths, labels in train_loader:
            opt.zero_grad()
            loss = criterion(model(ids, lengths), labels)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            opt.step()
            total += loss.item() * len(labels)
        val_loss, val_acc = evaluate(model, valid_loader, criterion)
        best = max(best, val_acc)
        print(f"epoch {epoch:2d}  train loss {total / len(train):.4f}  val loss {val_loss:.4f}  val acc {val_acc:.4f}")
    print(f"best val acc {best:.4f}")


if __name__ == "__main__":
    main()
