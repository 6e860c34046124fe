import copy, os
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

random.seed(23)
torch.manual_seed(23)
BUCKETS, DIM, LENGTH = 9973, 32, 70


def hash_ids(words):
    grams = words + [a + "_" + b for a, b in zip(words, words[1:])]
    out = []
    for g in grams[:LENGTH]:
        h = 0
        for ch in g:
            h = (h * 131 + ord(ch)) % 1000003
        out.append(1 + h % (BUCKETS - 1))
    return out + [0] * (LENGTH - len(out))


def load(n):
    rows = []
    for ext, y in (("pos", 1), ("neg", 0)):
        for line in open(os.environ["TRUELOOP_DATA"] + f"/movie-reviews/rt-polarity.{ext}", encoding="latin-1"):
            rows.append((line.split(), y))
    random.shuffle(rows)
    rows = rows[:n]
    return torch.tensor([hash_ids(w) for w, _ in rows]), torch.tensor([y for _, y in rows])


class HashedText(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(BUCKETS, DIM, padding_idx=0)
        self.out = nn.Sequential(nn.Dropout(0.2), nn.Linear(DIM, 2))

    def forward(self, ids):
        return self.out(self.bag(ids))


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        logits = model(x)
        return F.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


def train(model, x, y, xv, yv, max_epochs=20, patience=4):
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    best_loss, best_state, waited = float("inf"), None, 0
    for epoch in range(max_epochs):
        model.train()
        for idx in torch.randperm(len(x)).split(50):
            loss = F.cross_entropy(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
        val_loss, val_acc = evaluate(model, xv, yv)
        print(f"epoch {epoch} val loss {val_loss:.3f} acc {val_acc:.3f}")
        if val_loss < best_loss:
            best_loss, best_state, waited = val_loss, copy.deepcopy(model.state_dict()), 0
        else:
            waited += 1
            if waited >= patience:
                break
    model.load_state_dict(best_state)
    print(f"restored best epoch, val loss was {best_loss:.3f}")


x, y = load(5000)
model = HashedText()
train(model, x[:3500], y[:3500], x[3500:4200], y[3500:4200])
test_loss, test_acc = evaluate(model, x[4200:], y[4200:])
print(f"test loss {test_loss:.3f} acc {test_acc:.3f}")
