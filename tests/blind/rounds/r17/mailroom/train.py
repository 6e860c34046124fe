import csv
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

DIR = Path(sys.argv[1])
MAX_LEN = 24
torch.manual_seed(9)

vocab = {w: i for i, w in enumerate((DIR / "vocab.txt").read_text().split("\n"))}


def read(part):
    with open(DIR / f"{part}.csv") as f:
        return list(csv.DictReader(f))


def tokens(part, rows):
    """Token ids of a part; tokenised once and kept next to the csv."""
    cache = DIR / f"{part}.tokens.npy"
    if cache.exists():
        ids = np.load(cache)
        if ids.shape == (len(rows), MAX_LEN) and ids.max() < len(vocab):
            return torch.from_numpy(ids)
    ids = np.zeros((len(rows), MAX_LEN), np.int64)
    for i, r in enumerate(rows):
        t = [vocab.get(w, vocab["<unk>"]) for w in r["body"].lower().split()][:MAX_LEN]
        ids[i, :len(t)] = t
    np.save(cache, ids)
    return torch.from_numpy(ids)


train_rows, test_rows = read("train"), read("test")
teams = sorted({r["team"] for r in train_rows})
x, xt = tokens("train", train_rows), tokens("test", test_rows)
y = torch.tensor([teams.index(r["team"]) for r in train_rows])
yt = torch.tensor([teams.index(r["team"]) for r in test_rows])


class Router(nn.Module):
    def __init__(self, n_words, n_teams, d=40):
        super().__init__()
        self.emb = nn.Embedding(n_words, d, padding_idx=0)
        self.conv = nn.Conv1d(d, 64, 3, padding=1)
        self.fc = nn.Linear(64, n_teams)
        self.drop = nn.Dropout(0.3)

    def forward(self, t):
        h = torch.relu(self.conv(self.emb(t).transpose(1, 2)))
        return self.fc(self.drop(h.amax(2)))


model = Router(len(vocab), len(teams))
optim = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
for epoch in range(8):
    model.train()
    total, n = 0.0, 0
    for b in torch.randperm(len(x)).split(50):
        loss = nn.functional.cross_entropy(model(x[b]), y[b])
        optim.zero_grad()
        loss.backward()
        optim.step()
        total, n = total + loss.item(), n + 1
    print(f"epoch {epoch}: loss {total / n:.4f}")

model.eval()
with torch.no_grad():
    acc = (model(xt).argmax(1) == yt).float().mean().item()
print(f"routing accuracy on new mail: {acc:.3f}")
