import sys
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

folder = Path(sys.argv[1])
torch.manual_seed(13)
DEPARTMENTS = ["cards", "loans", "mortgage", "savings"]


def read(name):
    rows = [line.split("\t") for line in (folder / name).read_text().splitlines()]
    return [(text.split(), DEPARTMENTS.index(d)) for d, text in rows]


train, val, inbox = read("train.tsv"), read("val.tsv"), read("inbox.tsv")
vocab = {w: i + 1 for i, w in enumerate(sorted({w for ws, _ in train for w in ws}))}


def tensors(rows):
    return torch.tensor([[vocab.get(w, 0) for w in ws] for ws, _ in rows]), torch.tensor([y for _, y in rows])


class RoutingModel(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.words = nn.EmbeddingBag(len(vocab) + 1, dim, mode="sum")
        self.out = nn.Sequential(nn.Dropout(0.3), nn.Linear(dim, len(DEPARTMENTS)))
        nn.init.normal_(self.words.weight, std=0.1)

    def forward(self, ids):
        return self.out(self.words(ids))


@torch.no_grad()
def accuracy(model, ids, labels):
    model.eval()
    return (model(ids).argmax(1) == labels).float().mean().item()


x, y = tensors(train)
xv, yv = tensors(val)
xi, yi = tensors(inbox)
model = RoutingModel()
opt = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)
for epoch in range(6):
    model.train()
    total = 0.0
    for idx in torch.randperm(len(x)).split(30):
        loss = F.cross_entropy(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(idx)
    print(f"epoch {epoch} loss {total / len(x):.3f} val accuracy {accuracy(model, xv, yv):.3f}")
print(f"val accuracy {accuracy(model, xv, yv):.3f}, new mail accuracy {accuracy(model, xi, yi):.3f}")
