import json
import sys
from pathlib import Path

import torch
from torch import nn

root = Path(sys.argv[1])
torch.manual_seed(5)


def read_jsonl(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


splits = {name: read_jsonl(root / f"{name}.jsonl") for name in ("train", "val", "test")}
counts = {}
for row in splits["train"]:
    for w in set(row["text"].split()):
        counts[w] = counts.get(w, 0) + 1
vocab = {w: i for i, w in enumerate(sorted(w for w, c in counts.items() if c >= 2))}


def vectorize(rows):
    x = torch.zeros(len(rows), len(vocab))
    for i, row in enumerate(rows):
        for w in row["text"].split():
            if w in vocab:
                x[i, vocab[w]] = 1.0
    x = x / x.sum(1, keepdim=True).clamp(min=1).sqrt()
    return x, torch.tensor([row["label"] for row in rows])


data = {name: vectorize(rows) for name, rows in splits.items()}
model = nn.Sequential(nn.Linear(len(vocab), 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 2))
opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
loss_fn = nn.CrossEntropyLoss()


def accuracy(name):
    model.eval()
    x, y = data[name]
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


x, y = data["train"]
for epoch in range(4):
    model.train()
    for idx in torch.randperm(len(x)).split(44):
        loss = loss_fn(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"epoch {epoch} loss {loss.item():.3f} train {accuracy('train'):.3f} val {accuracy('val'):.3f}")
print(f"val accuracy {accuracy('val'):.3f} test accuracy {accuracy('test'):.3f}")
