"""Type of a contract clause (liability, payment, term, secrecy, venue) from its words, pooled by attention."""
import random

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

TYPES = ["liability", "payment", "term", "secrecy", "venue"]
VOCAB = 800
KEYWORDS = {i: list(range(50 + 12 * i, 62 + 12 * i)) for i in range(len(TYPES))}


def clause(rng):
    kind = rng.randrange(len(TYPES))
    n = rng.randint(6, 40)
    words = [rng.randint(1, 49) if rng.random() < 0.5 else rng.randint(150, VOCAB - 1) for _ in range(n)]
    for _ in range(rng.randint(1, 3)):
        words[rng.randrange(n)] = rng.choice(KEYWORDS[kind])
    if rng.random() < 0.3:
        other = rng.choice([k for k in range(len(TYPES)) if k != kind])
        words.insert(rng.randrange(n), rng.choice(KEYWORDS[other]))
        words.insert(rng.randrange(n), rng.choice(KEYWORDS[kind]))
    return words, kind


def collate(items):
    tokens = pad_sequence([torch.tensor(w) for w, _ in items], batch_first=True)
    lengths = torch.tensor([len(w) for w, _ in items])
    return tokens, lengths, torch.tensor([k for _, k in items])


class AttentivePool(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(dim, dim), nn.Tanh(), nn.Linear(dim, 1))

    def forward(self, h, lengths):
        pos = torch.arange(h.size(1), device=h.device)
        mask = pos[None, :] < lengths[:, None]
        s = self.score(h).squeeze(-1).masked_fill(mask, -1e9)
        w = s.softmax(dim=1)
        return (w.unsqueeze(-1) * h).sum(dim=1)


class ClauseModel(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim, padding_idx=0)
        self.drop = nn.Dropout(0.1)
        self.pool = AttentivePool(dim)
        self.head = nn.Linear(dim, len(TYPES))

    def forward(self, tokens, lengths):
        return self.head(self.pool(self.drop(self.emb(tokens)), lengths))


class Experiment:
    def __init__(self, seed=17, epochs=5):
        rng = random.Random(seed)
        torch.manual_seed(seed)
        clauses = [clause(rng) for _ in range(5000)]
        self.train = DataLoader(clauses[:4200], batch_size=50, shuffle=True, collate_fn=collate)
        self.valid = DataLoader(clauses[4200:], batch_size=200, collate_fn=collate)
        self.model = ClauseModel()
        self.opt = torch.optim.Adam(self.model.parameters(), lr=5e-3)
        self.loss = nn.CrossEntropyLoss()
        self.epochs = epochs

    def step(self, batch):
        tokens, lengths, y = batch
        loss = self.loss(self.model(tokens, lengths), y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()

    @torch.no_grad()
    def accuracy(self):
        self.model.eval()
        hits = [(self.model(t, n).argmax(1) == y).float() for t, n, y in self.valid]
        return torch.cat(hits).mean().item()

    def run(self):
        for e in range(self.epochs):
            self.model.train()
            losses = [self.step(b) for b in self.train]
            print(f"epoch {e}: loss {sum(losses) / len(losses):.4f}, valid accuracy {self.accuracy():.4f}")
        print(f"validation accuracy: {self.accuracy():.4f}")


if __name__ == "__main__":
    Experiment().run()
