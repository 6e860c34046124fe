import sys
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

folder = Path(sys.argv[1])
torch.manual_seed(0)
MAX_TOKENS = 16

vocab = {w: i for i, w in enumerate((folder / "vocab.txt").read_text().split())}
PAD, UNK = vocab["<pad>"], vocab["<unk>"]
TOPICS = ["account", "billing", "returns", "shipping", "technical"]


def read(name):
    x, y = [], []
    for line in (folder / name).read_text().splitlines():
        topic, text = line.split("\t")
        ids = [vocab.get(w, UNK) for w in text.split()][:MAX_TOKENS]
        x.append(ids + [PAD] * (MAX_TOKENS - len(ids)))
        y.append(TOPICS.index(topic))
    return torch.tensor(x), torch.tensor(y)


class Router(nn.Module):
    def __init__(self, vocab_size, dim=32):
        super().__init__()
        self.emb = nn.EmbeddingBag(vocab_size, dim, padding_idx=PAD)
        self.mlp = nn.Sequential(nn.Dropout(0.2), nn.Linear(dim, 32), nn.ReLU(), nn.Linear(32, len(TOPICS)))

    def forward(self, ids):
        return self.mlp(self.emb(ids))


train_x, train_y = read("train.tsv")
val_x, val_y = read("val.tsv")
model = Router(len(vocab))
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(6):
    model.train()
    total = 0.0
    for idx in torch.randperm(len(train_x)).split(40):
        loss = F.cross_entropy(model(train_x[idx]), train_y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(idx)
    model.eval()
    with torch.no_grad():
        acc = (model(val_x).argmax(1) == val_y).float().mean().item()
    print(f"epoch {epoch} loss {total / len(train_x):.3f} val accuracy {acc:.3f}")
