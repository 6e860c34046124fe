import csv
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

folder = sys.argv[1]
torch.manual_seed(27)


def read(name):
    with open(f"{folder}/{name}.csv", newline="") as f:
        return [(int(r["intent"]), r["utterance"].split()) for r in csv.DictReader(f)]


train_rows = read("annotator_a") + read("annotator_b")
val_rows = read("val")
vocab = {w: i + 1 for i, w in enumerate(sorted({w for _, ws in train_rows for w in ws}))}
n_intents = 1 + max(c for c, _ in train_rows)


def to_tensor(rows):
    ids = torch.tensor([[vocab.get(w, 0) for w in ws] for _, ws in rows])
    return ids, torch.tensor([c for c, _ in rows])


class IntentNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(len(vocab) + 1, 32)
        self.hidden = nn.Linear(32, 48)
        self.out = nn.Linear(48, n_intents)
        self.drop = nn.Dropout(0.2)

    def forward(self, ids):
        h = F.relu(self.hidden(self.embed(ids))).amax(1)
        return self.out(self.drop(h))


x, y = to_tensor(train_rows)
xv, yv = to_tensor(val_rows)
model = IntentNet()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(10):
    model.train()
    running = 0.0
    for idx in torch.randperm(len(x)).split(30):
        loss = F.cross_entropy(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        running += loss.item() * len(idx)
    model.eval()
    with torch.no_grad():
        logits = model(xv)
    if epoch % 2:
        acc = (logits.argmax(1) == yv).float().mean().item()
        print(f"epoch {epoch} loss {running / len(x):.3f} val loss {F.cross_entropy(logits, yv).item():.3f} acc {acc:.3f}")
