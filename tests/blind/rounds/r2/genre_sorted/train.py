import json
import os
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

root = sys.argv[1]
torch.manual_seed(8)


def load(name):
    with open(os.path.join(root, name)) as f:
        return json.load(f)


train_rows, val_rows = load("train.json"), load("val.json")
genres = sorted({r["genre"] for r in train_rows})
vocab = {w: i + 1 for i, w in enumerate(sorted({w for r in train_rows for w in r["plot"]}))}


def dataset(rows):
    ids = torch.tensor([[vocab.get(w, 0) for w in r["plot"]] for r in rows])
    return TensorDataset(ids, torch.tensor([genres.index(r["genre"]) for r in rows]))


train_loader = DataLoader(dataset(train_rows), **load("loader.json"))
val_loader = DataLoader(dataset(val_rows), batch_size=100)
model = nn.Sequential(nn.EmbeddingBag(len(vocab) + 1, 32), nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, len(genres)))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
criterion = nn.CrossEntropyLoss()


def validate():
    model.eval()
    hits, loss, n = 0, 0.0, 0
    with torch.no_grad():
        for ids, y in val_loader:
            logits = model(ids)
            loss += criterion(logits, y).item() * len(y)
            hits += (logits.argmax(1) == y).sum().item()
            n += len(y)
    return loss / n, hits / n


for epoch in range(5):
    model.train()
    total = 0.0
    for ids, y in train_loader:
        loss = criterion(model(ids), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    val_loss, val_acc = validate()
    print(f"epoch {epoch} train loss {total / len(train_loader):.3f} val loss {val_loss:.3f} acc {val_acc:.3f}")
