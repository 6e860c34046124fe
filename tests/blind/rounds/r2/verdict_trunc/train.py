import json
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

folder = sys.argv[1]
cfg = json.load(open(os.path.join(folder, "config.json")))
torch.manual_seed(cfg["seed"])


def load(name):
    return [json.loads(line) for line in open(os.path.join(folder, name))]


train_rows, val_rows = load("train.jsonl"), load("val.jsonl")
labels = sorted({r["label"] for r in train_rows})
vocab = {"<pad>": 0, "<unk>": 1}
for r in train_rows:
    for w in r["text"].split():
        vocab.setdefault(w, len(vocab))


def encode(rows):
    x = torch.zeros(len(rows), cfg["max_tokens"], dtype=torch.long)
    for i, r in enumerate(rows):
        ids = [vocab.get(w, 1) for w in r["text"].split()][:cfg["max_tokens"]]
        x[i, :len(ids)] = torch.tensor(ids)
    return x, torch.tensor([labels.index(r["label"]) for r in rows])


class AttentionPool(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.emb = nn.Embedding(len(vocab), dim, padding_idx=0)
        self.score = nn.Linear(dim, 1)
        self.out = nn.Linear(dim, len(labels))

    def forward(self, x):
        e = self.emb(x)
        s = self.score(e).squeeze(-1).masked_fill(x == 0, -1e9)
        return self.out((s.softmax(1).unsqueeze(-1) * e).sum(1))


x, y = encode(train_rows)
xv, yv = encode(val_rows)
model = AttentionPool(cfg["dim"])
opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
for epoch in range(cfg["epochs"]):
    model.train()
    total = 0.0
    for idx in torch.randperm(len(x)).split(cfg["batch_size"]):
        loss = F.cross_entropy(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(idx)
    model.eval()
    with torch.no_grad():
        val = model(xv)
        acc = (val.argmax(1) == yv).float().mean().item()
    print(f"epoch {epoch} loss {total / len(x):.3f} val loss {F.cross_entropy(val, yv).item():.3f} acc {acc:.3f}")
