"""Classify court decisions by area of law."""
import json
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

folder = Path(sys.argv[1])
cfg = json.loads((folder / "config.json").read_text())
torch.manual_seed(cfg["seed"])


class Vocabulary:
    def __init__(self, path):
        self.tokens = path.read_text().split("\n")[:-1]
        self.index = {t: i for i, t in enumerate(self.tokens)}
        self.unk = self.index["[UNK]"]

    def __len__(self):
        return len(self.tokens)

    def encode(self, text):
        return [self.index.get(t, self.unk) for t in text.lower().split()]


class Decisions(Dataset):
    def __init__(self, path, vocab, areas=None):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        self.areas = areas or sorted({r["area"] for r in rows})
        self.ids = [torch.tensor(vocab.encode(r["text"])[: cfg["max_len"]]) for r in rows]
        self.labels = [self.areas.index(r["area"]) for r in rows]

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return self.ids[i], self.labels[i]


def collate(items):
    ids, labels = zip(*items)
    return pad_sequence(ids, batch_first=True, padding_value=0), torch.tensor(labels)


class AttentivePooling(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.key = nn.Linear(dim, dim)
        self.query = nn.Parameter(torch.randn(dim) * 0.1)

    def forward(self, x, mask):
        score = torch.tanh(self.key(x)) @ self.query
        weight = score.masked_fill(~mask, float("-inf")).softmax(1)
        return (weight.unsqueeze(-1) * x).sum(1)


class Classifier(nn.Module):
    def __init__(self, n_tokens, n_areas):
        super().__init__()
        d = cfg["dim"]
        self.emb = nn.Embedding(n_tokens, d, padding_idx=0)
        self.pool = AttentivePooling(d)
        self.head = nn.Sequential(nn.Dropout(cfg["dropout"]), nn.Linear(d, d), nn.ReLU(), nn.Linear(d, n_areas))

    def forward(self, ids):
        return self.head(self.pool(self.emb(ids), ids != 0))


vocab = Vocabulary(folder / "vocab.txt")
train_set = Decisions(folder / "train.jsonl", vocab)
valid_set = Decisions(folder / "valid.jsonl", vocab, train_set.areas)
train_loader = DataLoader(train_set, cfg["batch_size"], shuffle=True, collate_fn=collate)
valid_loader = DataLoader(valid_set, 128, collate_fn=collate)
print(f"{len(train_set)} training, {len(valid_set)} validation decisions, vocabulary of {len(vocab)}")

model = Classifier(len(vocab), len(train_set.areas))
optimizer = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=0.01)
criterion = nn.CrossEntropyLoss()

for epoch in range(cfg["epochs"]):
    model.train()
    total = 0.0
    for ids, labels in train_loader:
        loss = criterion(model(ids), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(labels)
    model.eval()
    with torch.no_grad():
        hits = sum((model(ids).argmax(1) == labels).sum().item() for ids, labels in valid_loader)
    print(f"epoch {epoch + 1:2d}  loss {total / len(train_set):.3f}  valid accuracy {hits / len(valid_set):.3f}")

print(f"validation accuracy {hits / len(valid_set):.4f}")
