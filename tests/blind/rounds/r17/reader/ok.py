"""Pointer network for tiny 'where is X' questions over a list of facts."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

NAMES = "anna boris clara david emma felix greta hugo iris jonas".split()
PLACES = "kitchen garden office cellar attic garage library bathroom".split()
VERBS = ["went to the", "is in the", "moved to the", "walked into the"]
ASK = ["where is {}", "tell me where {} is", "where did {} go", "do you know where {} is now", "{} is where"]
Q_LEN, C_LEN = 9, 30

random.seed(3)
torch.manual_seed(3)
words = sorted(set(NAMES + PLACES + " ".join(VERBS).split() + " ".join(ASK).replace("{}", "").split()))
vocab = {w: i + 1 for i, w in enumerate(words)}


def encode(text, n):
    ids = [vocab[w] for w in text.split()]
    return ids + [0] * (n - len(ids))


def sample():
    people = random.sample(NAMES, random.randint(3, 5))
    facts = [(p, random.choice(VERBS), random.choice(PLACES)) for p in people]
    k = random.randrange(len(facts))
    story = " ".join(f"{p} {v} {pl}" for p, v, pl in facts)
    question = random.choice(ASK).format(facts[k][0])
    end = sum(len(f"{p} {v} {pl}".split()) for p, v, pl in facts[:k + 1]) - 1
    return encode(story, C_LEN), encode(question, Q_LEN), end


def make(n):
    c, q, a = zip(*(sample() for _ in range(n)))
    return torch.tensor(c), torch.tensor(q), torch.tensor(a)


class AttentionPool(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.score = nn.Linear(d, 1)

    def forward(self, h, mask):
        s = self.score(h).squeeze(-1)
        s = s.masked_fill(~mask, -1e9)
        w = F.softmax(s, dim=-1)
        return torch.einsum("bt,btd->bd", w, h)


class Reader(nn.Module):
    def __init__(self, n_words, d=48):
        super().__init__()
        self.emb = nn.Embedding(n_words, d)
        self.story = nn.GRU(d, d, batch_first=True)
        self.pool = AttentionPool(d)
        self.query = nn.Linear(d, d)

    def forward(self, c, q):
        h, _ = self.story(self.emb(c))
        u = self.query(self.pool(self.emb(q), q != 0))
        logits = torch.einsum("btd,bd->bt", h, u)
        return logits.masked_fill(c == 0, -1e9)


train, test = make(2400), make(500)
model = Reader(len(vocab) + 1)
opt = torch.optim.Adam(model.parameters(), lr=5e-3)

for epoch in range(5):
    model.train()
    total = 0.0
    for idx in torch.randperm(len(train[0])).split(50):
        c, q, a = (t[idx] for t in train)
        loss = F.cross_entropy(model(c, q), a)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        total += loss.item() * len(idx)
    print(f"epoch {epoch} loss {total / len(train[0]):.4f}")

model.eval()
with torch.no_grad():
    c, q, a = test
    exact = (model(c, q).argmax(1) == a).float().mean().item()
print(f"exact match {exact:.3f}")
