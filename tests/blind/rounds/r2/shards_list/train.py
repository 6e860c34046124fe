import argparse
import pathlib

import torch
from torch import nn
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=pathlib.Path)
args = parser.parse_args()
torch.manual_seed(16)
LANGS = ["ced", "ilo", "sam", "tok"]


def read(path):
    rows = []
    for line in path.read_text().splitlines():
        lang, word = line.split("\t")
        rows.append((word, LANGS.index(lang)))
    return rows


train_rows = []
for shard in (args.folder / "manifest.txt").read_text().split():
    train_rows += read(args.folder / "shards" / shard)
val_rows = read(args.folder / "val.txt")


def collate(rows):
    width = 9
    x = torch.zeros(len(rows), width, dtype=torch.long)
    for i, (word, _) in enumerate(rows):
        x[i, :len(word)] = torch.tensor([ord(c) - 96 for c in word])
    return x, torch.tensor([y for _, y in rows])


class CharCNN(nn.Module):
    def __init__(self, dim=16, width=48):
        super().__init__()
        self.emb = nn.Embedding(27, dim, padding_idx=0)
        self.conv = nn.Conv1d(dim, width, 3, padding=1)
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(width, len(LANGS)))

    def forward(self, x):
        h = torch.relu(self.conv(self.emb(x).transpose(1, 2)))
        return self.head(h.mean(-1))


train_loader = DataLoader(train_rows, batch_size=40, shuffle=True, collate_fn=collate)
val_loader = DataLoader(val_rows, batch_size=160, collate_fn=collate)
model = CharCNN()
opt = torch.optim.Adam(model.parameters(), lr=4e-3)
loss_fn = nn.CrossEntropyLoss()
for epoch in range(6):
    model.train()
    total = 0.0
    for x, y in train_loader:
        loss = loss_fn(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    model.eval()
    hits, val_loss = 0, 0.0
    with torch.no_grad():
        for x, y in val_loader:
            logits = model(x)
            val_loss += loss_fn(logits, y).item() * len(y)
            hits += (logits.argmax(1) == y).sum().item()
    print(f"epoch {epoch} loss {total / len(train_loader):.3f} val loss {val_loss / len(val_rows):.3f} acc {hits / len(val_rows):.3f}")
