import csv
import random
import sys
from collections import Counter
from pathlib import Path

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence

PAD, UNK = 0, 1


def read_tsv(path):
    with open(path, encoding="utf-8", newline="") as fh:
        rows = list(csv.DictReader(fh, delimiter="\t"))
    return [r["sentence"] for r in rows], [r["dialect"] for r in rows]


class Alphabet:
    def __init__(self, texts, min_count=3):
        counts = Counter(c for t in texts for c in t)
        self.index = {c: i + 2 for i, c in enumerate(sorted(c for c, n in counts.items() if n >= min_count))}

    def __len__(self):
        return len(self.index) + 2

    def encode(self, text):
        return torch.tensor([self.index.get(c, UNK) for c in text])


class CharCNN(nn.Module):
    """Character embeddings, filters of three widths, masked max pooling."""

    def __init__(self, n_chars, n_classes, dim=24, filters=32, widths=(1, 3, 5)):
        super().__init__()
        self.emb = nn.Embedding(n_chars, dim, padding_idx=PAD)
        self.convs = nn.ModuleList(nn.Conv1d(dim, filters, w, padding=w // 2) for w in widths)
        self.drop = nn.Dropout(0.3)
        self.out = nn.Linear(2 * filters * len(widths), n_classes)

    def forward(self, x):
        mask = (x != PAD)[:, None]
        e = self.emb(x).transpose(1, 2)
        pooled = []
        for conv in self.convs:
            h = torch.relu(conv(e))
            pooled.append(h.masked_fill(~mask, 0).amax(-1))
            pooled.append(h.masked_fill(~mask, 0).sum(-1) / mask.sum(-1))
        return self.out(self.drop(torch.cat(pooled, 1)))


def batches(data, size, shuffle):
    order = torch.randperm(len(data)).tolist() if shuffle else range(len(data))
    for i in range(0, len(data), size):
        part = [data[j] for j in order[i:i + size]]
        yield pad_sequence([x for x, _ in part], batch_first=True), torch.tensor([y for _, y in part])


def evaluate(model, data):
    model.eval()
    loss, right = 0.0, 0
    with torch.no_grad():
        for x, y in batches(data, 100, False):
            out = model(x)
            loss += nn.functional.cross_entropy(out, y, reduction="sum").item()
            right += (out.argmax(1) == y).sum().item()
    return loss / len(data), right / len(data)


def main():
    folder = Path(sys.argv[1])
    random.seed(1)
    torch.manual_seed(1)
    texts, names = read_tsv(folder / "train.tsv")
    val_texts, val_names = read_tsv(folder / "val.tsv")
    classes = {d: i for i, d in enumerate(sorted(set(names)))}
    alphabet = Alphabet(texts)
    train = [(alphabet.encode(t), classes[d]) for t, d in zip(texts, names)]
    val = [(alphabet.encode(t), classes[d]) for t, d in zip(val_texts, val_names)]
    print(f"{len(train)} training sentences, {len(val)} for validation, {len(classes)} dialects")

    model = CharCNN(len(alphabet), len(classes))
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-3)
    for epoch in range(1, 11):
        model.train()
        total = 0.0
        for x, y in batches(train, 50, True):
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
        vl, va = evaluate(model, val)
        print(f"epoch {epoch:2d} | train loss {total / len(train):.3f} | val loss {vl:.3f} | val accuracy {va:.3f}")


if __name__ == "__main__":
    main()
