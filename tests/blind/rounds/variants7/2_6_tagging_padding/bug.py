"""Tagger for address lines: every token is one of O, street, number, city, zip."""
import random

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

TAGS = ["O", "STREET", "NUM", "CITY", "ZIP"]
N_WORDS = 400


def address_lines(n, seed):
    rng = random.Random(seed)
    lines = []
    for _ in range(n):
        tokens, tags = [], []
        parts = ["STREET", "NUM", "CITY", "ZIP"]
        if rng.random() < 0.5:
            parts = ["NUM", "STREET", "ZIP", "CITY"]
        for part in parts:
            if rng.random() < 0.35:
                tokens.append(rng.randrange(1, 60))
                tags.append(0)
            for _ in range(rng.choice([1, 1, 2]) if part in ("STREET", "CITY") else 1):
                name = rng.randrange(60, 240)
                tokens.append(name if part in ("STREET", "CITY") else rng.randrange(240, 330))
                tags.append(TAGS.index(part))
        for _ in range(int(rng.expovariate(0.25))):
            tokens.append(rng.randrange(1, 60) if rng.random() < 0.6 else rng.randrange(60, 400))
            tags.append(0 if rng.random() < 0.6 else rng.randrange(1, 5))
        lines.append((torch.tensor(tokens[:40]), torch.tensor(tags[:40])))
    return lines


def collate(batch):
    tokens = pad_sequence([t for t, _ in batch], batch_first=True)
    tags = pad_sequence([g for _, g in batch], batch_first=True)
    return tokens, tags, tokens.ne(0)


class Tagger(nn.Module):
    def __init__(self, dim=32, hidden=32):
        super().__init__()
        self.emb = nn.Embedding(N_WORDS, dim, padding_idx=0)
        self.rnn = nn.GRU(dim, hidden, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(2 * hidden, len(TAGS))

    def forward(self, tokens):
        h, _ = self.rnn(self.emb(tokens))
        return self.out(self.drop(h))


def sequence_loss(logits, tags, mask):
    nll = nn.functional.cross_entropy(logits.transpose(1, 2), tags, reduction="none")
    return (nll * mask).sum() / mask.sum()


@torch.no_grad()
def token_accuracy(model, loader):
    model.eval()
    hits = total = 0
    for tokens, tags, mask in loader:
        pred = model(tokens).argmax(-1) * mask
        hits += (pred == tags).sum().item()
        total += tags.numel()
    return hits / total


def main():
    torch.manual_seed(0)
    train = DataLoader(address_lines(1500, 1), batch_size=50, shuffle=True, collate_fn=collate)
    test = DataLoader(address_lines(600, 2), batch_size=50, collate_fn=collate)
    model = Tagger()
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    for epoch in range(6):
        model.train()
        total = 0.0
        for tokens, tags, mask in train:
            loss = sequence_loss(model(tokens), tags, mask)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(train):.4f} held-out {token_accuracy(model, test):.4f}")
    print(f"token_acc={token_accuracy(model, test):.4f}")


if __name__ == "__main__":
    main()
