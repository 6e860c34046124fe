import os
"""Sentence polarity: start from a general vocabulary, extend it with the words of the domain, train."""
import collections
import random
import torch
import torch.nn as nn
import torch.nn.functional as F

random.seed(2)
torch.manual_seed(2)
ROOT = os.environ["TRUELOOP_DATA"] + "/movie-reviews/rt-polarity."
GENERAL = "the a an and of to is in it that this with for as but on its are be not no more most very too".split()
MAXLEN, DIM, HID = 40, 32, 32
EPOCHS, BATCH, LR = 6, 64, 3e-3

rows = []
for lab, ext in ((1, "pos"), (0, "neg")):
    with open(ROOT + ext, encoding="latin-1") as f:
        rows += [(line.split()[:MAXLEN], lab) for line in f if line.strip()]
random.shuffle(rows)
train, val, test = rows[:8000], rows[8000:9300], rows[9300:]


class Classifier(nn.Module):
    def __init__(self, n_words):
        super().__init__()
        self.embed = nn.Embedding(n_words, DIM, padding_idx=0)
        self.drop = nn.Dropout(0.4)
        self.fc = nn.Linear(DIM, HID)
        self.out = nn.Linear(HID, 2)

    def extend_vocabulary(self, n_words):
        old = self.embed.weight.data
        self.embed = nn.Embedding(n_words, DIM, padding_idx=0)
        self.embed.weight.data.mul_(0.3)
        self.embed.weight.data[:len(old)] = old

    def forward(self, ids):
        mask = (ids > 0).float()[..., None]
        pooled = (self.embed(ids) * mask).sum(1) / mask.sum(1).clamp(min=1)
        return self.out(F.relu(self.fc(self.drop(pooled))))


vocab = {"<pad>": 0, "<unk>": 1}
for w in GENERAL:
    vocab[w] = len(vocab)
counts = collections.Counter(w for words, _ in train for w in words)
domain_words = [w for w, c in counts.most_common() if c >= 3 and w not in vocab]

model = Classifier(len(vocab))
for w in domain_words:
    vocab[w] = len(vocab)
model.extend_vocabulary(len(vocab))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
print(f"vocabulary {len(vocab)} words, {sum(p.numel() for p in model.parameters())} parameters")


def encode(part):
    ids = torch.zeros(len(part), MAXLEN, dtype=torch.long)
    for r, (words, _) in enumerate(part):
        ids[r, :len(words)] = torch.tensor([vocab.get(w, 1) for w in words])
    return ids, torch.tensor([lab for _, lab in part])


x_tr, y_tr = encode(train)
x_va, y_va = encode(val)
x_te, y_te = encode(test)


@torch.no_grad()
def evaluate(x, y):
    model.eval()
    logits = model(x)
    return F.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


best, best_state = 9.9, None
for epoch in range(EPOCHS):
    model.train()
    total = 0.0
    for idx in torch.randperm(len(x_tr)).split(BATCH):
        loss = F.cross_entropy(model(x_tr[idx]), y_tr[idx])
        model.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(idx)
    vl, va = evaluate(x_va, y_va)
    if vl < best:
        best, best_state = vl, {k: v.clone() for k, v in model.state_dict().items()}
    print(f"epoch {epoch} train {total / len(x_tr):.4f} val {vl:.4f} acc {va:.4f}")

model.load_state_dict(best_state)
print("test loss %.4f acc %.4f" % evaluate(x_te, y_te))
