import argparse
import csv
import random
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn

parser = argparse.ArgumentParser(description="newspaper section from the headline, on top of our word vectors")
parser.add_argument("folder", type=Path)
parser.add_argument("--epochs", type=int, default=40)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--lr", type=float, default=2e-3)
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()
random.seed(args.seed)
torch.manual_seed(args.seed)

# words and vectors; index 0 is padding, 1 is any other word
vocab = (args.folder / "vocab.txt").read_text().split()
word_id = {w: i + 2 for i, w in enumerate(vocab)}
vectors = np.load(args.folder / "word_vectors.npy").astype(np.float32)
assert len(vectors) == len(vocab)
table = torch.cat([torch.zeros(2, vectors.shape[1]), torch.from_numpy(vectors)])

articles = {"train": [], "test": []}
with open(args.folder / "headlines.tsv", newline="") as f:
    for r in csv.DictReader(f, delimiter="\t"):
        articles[r["split"]].append((r["headline"].split(), r["section"]))
sections = sorted({s for _, s in articles["train"]})


def collate(rows):
    longest = max(len(h) for h, _ in rows)
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    for i, (headline, _) in enumerate(rows):
        ids[i, :len(headline)] = torch.tensor([word_id.get(w, 1) for w in headline])
    return ids, torch.tensor([sections.index(s) for _, s in rows])


class SectionModel(nn.Module):
    def __init__(self, table, n_out):
        super().__init__()
        dim = table.shape[1]
        self.words = nn.Embedding.from_pretrained(table, freeze=True, padding_idx=0)
        self.weight = nn.Linear(dim, 1)
        self.classify = nn.Sequential(nn.LayerNorm(dim), nn.Dropout(0.2), nn.Linear(dim, 48), nn.ReLU(),
                                      nn.Dropout(0.2), nn.Linear(48, n_out))

    def forward(self, ids):
        e = self.words(ids)
        w = self.weight(e).squeeze(2).masked_fill(ids == 0, float("-inf")).softmax(dim=1)
        return self.classify((w.unsqueeze(2) * e).sum(dim=1))


model = SectionModel(table, len(sections))
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=args.lr, weight_decay=0.05)
loss_fn = nn.CrossEntropyLoss()
train_rows = articles["train"]

for epoch in range(args.epochs):
    model.train()
    random.shuffle(train_rows)
    summed = 0.0
    for start in range(0, len(train_rows), args.batch_size):
        ids, target = collate(train_rows[start:start + args.batch_size])
        loss = loss_fn(model(ids), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        summed += loss.item() * len(target)
    if epoch % 5 == 4:
        model.eval()
        with torch.no_grad():
            ids, target = collate(articles["test"])
            accuracy = (model(ids).argmax(1) == target).float().mean().item()
        print(f"epoch {epoch + 1}: loss {summed / len(train_rows):.4f}, test accuracy {accuracy:.4f}")
