"""Multi-label topic tagging of short documents with an embedding bag.

usage: train.py FOLDER
FOLDER/docs.tsv      doc_id <tab> split <tab> text
FOLDER/doc_tags.csv  doc_id,tag   (one row for each tag of a document)
"""
import csv
import os
import sys
from collections import Counter, defaultdict

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader


def load(folder):
    tags = defaultdict(set)
    with open(os.path.join(folder, "doc_tags.csv"), newline="") as f:
        for row in csv.DictReader(f):
            tags[row["doc_id"]].add(row["tag"])
    names = sorted(set().union(*tags.values()))
    docs = defaultdict(list)
    with open(os.path.join(folder, "docs.tsv")) as f:
        for line in f:
            doc_id, split, text = line.rstrip("\n").split("\t")
            target = [float(n in tags[doc_id]) for n in names]
            docs[split].append((text.split(), target))
    return docs, names


def build_vocab(docs, min_count=2):
    count = Counter(w for words, _ in docs for w in set(words))
    return {w: i + 1 for i, (w, c) in enumerate(sorted(count.items())) if c >= min_count}


def collate_with(vocab):
    def collate(items):
        ids, offsets, ys = [], [], []
        for words, target in items:
            offsets.append(len(ids))
            ids += [vocab.get(w, 0) for w in words]
            ys.append(target)
        return torch.tensor(ids), torch.tensor(offsets), torch.tensor(ys)
    return collate


class BagTagger(nn.Module):
    def __init__(self, n_words, n_tags, dim=48):
        super().__init__()
        self.bag = nn.EmbeddingBag(n_words, dim, mode="mean")
        self.drop = nn.Dropout(0.2)
        self.fc = nn.Sequential(nn.Linear(dim, 48), nn.ReLU(), nn.Linear(48, n_tags))

    def forward(self, ids, offsets):
        return self.fc(self.drop(self.bag(ids, offsets)))


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    tp = fp = fn = 0
    for ids, off, y in loader:
        p = (model(ids, off) > 0).float()
        tp += (p * y).sum(0)
        fp += (p * (1 - y)).sum(0)
        fn += ((1 - p) * y).sum(0)
    model.train()
    micro = (2 * tp.sum() / (2 * tp + fp + fn).sum()).item()
    macro = (2 * tp / (2 * tp + fp + fn).clamp(min=1)).mean().item()
    return micro, macro


def main(folder):
    torch.manual_seed(13)
    np.random.seed(13)
    docs, names = load(folder)
    vocab = build_vocab(docs["train"])
    col = collate_with(vocab)
    train = DataLoader(docs["train"], batch_size=32, shuffle=True, collate_fn=col)
    valid, test = (DataLoader(docs[s], batch_size=200, collate_fn=col) for s in ("valid", "test"))
    print(len(vocab), "words,", len(names), "tags,", {s: len(d) for s, d in docs.items()})
    model = BagTagger(len(vocab) + 1, len(names))
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    loss_fn = nn.BCEWithLogitsLoss()
    for epoch in range(10):
        total = 0.0
        for ids, off, y in train:
            opt.zero_grad()
            loss = loss_fn(model(ids, off), y)
            loss.backward()
            opt.step()
            total += loss.item() / len(train)
        micro, macro = evaluate(model, valid)
        print(f"epoch {epoch} loss {total:.4f} valid micro-F1 {micro:.4f} macro-F1 {macro:.4f}")
    micro, macro = evaluate(model, test)
    print(f"test micro-F1 {micro:.4f} macro-F1 {macro:.4f}")


if __name__ == "__main__":
    main(sys.argv[1])
