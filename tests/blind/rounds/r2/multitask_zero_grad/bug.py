import random, os

import torch
import torch.nn as nn
import torch.nn.functional as F

random.seed(17)
torch.manual_seed(17)
FOLDER = os.environ["TRUELOOP_DATA"] + "/movie-reviews/"
TRAIN, VAL, VOCAB = 4000, 800, 3000


def read_reviews():
    rows = []
    for name, polarity in (("rt-polarity.pos", 1), ("rt-polarity.neg", 0)):
        for line in open(FOLDER + name, encoding="latin-1"):
            rows.append((line.split(), polarity))
    random.shuffle(rows)
    return rows[:TRAIN + VAL]


rows = read_reviews()
counts = {}
for words, _ in rows[:TRAIN]:
    for w in words:
        counts[w] = counts.get(w, 0) + 1
top = sorted(counts, key=counts.get, reverse=True)[:VOCAB]
index = {w: i for i, w in enumerate(top)}


def features(words):
    v = torch.zeros(VOCAB)
    for w in words:
        if w in index:
            v[index[w]] = 1.0
    return v


X = torch.stack([features(w) for w, _ in rows])
polarity = torch.tensor([p for _, p in rows])
bucket = torch.tensor([min(len(w) // 10, 4) for w, _ in rows])


class TwoHeads(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(VOCAB, hidden), nn.ReLU(), nn.Dropout(0.4))
        self.polarity = nn.Linear(hidden, 2)
        self.bucket = nn.Linear(hidden, 5)

    def forward(self, x):
        h = self.trunk(x)
        return self.polarity(h), self.bucket(h)


@torch.no_grad()
def evaluate(model):
    model.eval()
    p, b = model(X[TRAIN:])
    return ((p.argmax(1) == polarity[TRAIN:]).float().mean().item(),
            (b.argmax(1) == bucket[TRAIN:]).float().mean().item())


model = TwoHeads()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(4):
    model.train()
    sums = [0.0, 0.0]
    order = torch.randperm(TRAIN)
    for start in range(0, TRAIN, 50):
        idx = order[start:start + 50]
        optimizer.zero_grad()
        loss_p = F.cross_entropy(model(X[idx])[0], polarity[idx])
        loss_p.backward()
        optimizer.zero_grad()
        loss_b = F.cross_entropy(model(X[idx])[1], bucket[idx])
        loss_b.backward()
        optimizer.step()
        sums[0] += loss_p.item()
        sums[1] += loss_b.item()
    acc_p, acc_b = evaluate(model)
    print(f"epoch {epoch} losses {sums[0] / 80:.3f} {sums[1] / 80:.3f} val polarity {acc_p:.3f} bucket {acc_b:.3f}")
