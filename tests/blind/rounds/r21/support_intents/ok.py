"""Intent classifier for a help desk: bag of tokens -> one of 60 intents."""
import argparse
import random

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

N_INTENTS = 60
VOCAB = 3000
MAX_LEN = 24


def make_corpus(n, gen, topics):
    """Utterances: a few words typical of the intent, the rest small talk."""
    zipf = 1.0 / np.arange(1, VOCAB) ** 0.9
    zipf /= zipf.sum()
    labels = gen.integers(0, N_INTENTS, n)
    tokens = np.zeros((n, MAX_LEN), dtype=np.int64)
    for i, y in enumerate(labels):
        length = gen.integers(8, MAX_LEN + 1)
        words = gen.choice(np.arange(1, VOCAB), size=length, p=zipf)
        k = gen.binomial(length, 0.3)
        words[:k] = gen.choice(topics[y], size=k)
        gen.shuffle(words)
        tokens[i, :length] = words
    return tokens, labels


class Utterances(Dataset):
    def __init__(self, tokens, labels):
        self.tokens = torch.from_numpy(tokens)
        self.labels = torch.from_numpy(labels)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.tokens[i], self.labels[i]


class IntentNet(nn.Module):
    def __init__(self, dim, hidden, p):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim, padding_idx=0)
        self.body = nn.Sequential(
            nn.Linear(dim, hidden), nn.ReLU(), nn.Dropout(p),
        )
        self.out = nn.Linear(hidden, N_INTENTS)

    def forward(self, tok):
        e = self.emb(tok)
        keep = (tok != 0).unsqueeze(-1).float()
        pooled = (e * keep).sum(1) / keep.sum(1).clamp(min=1).sqrt()
        h = self.body(pooled)
        return self.out(h)


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    hit = n = 0
    for tok, y in loader:
        hit += (model(tok).argmax(-1) == y).sum().item()
        n += len(y)
    return hit / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--batch-size", type=int, default=64)
    ap.add_argument("--seed", type=int, default=7)
    args = ap.parse_args()
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    gen = np.random.default_rng(args.seed)

    topics = [gen.choice(np.arange(100, VOCAB), size=25, replace=False) for _ in range(N_INTENTS)]
    train = Utterances(*make_corpus(7000, gen, topics))
    valid = Utterances(*make_corpus(1500, gen, topics))
    train_dl = DataLoader(train, batch_size=args.batch_size, shuffle=True)
    valid_dl = DataLoader(valid, batch_size=256)

    model = IntentNet(dim=64, hidden=128, p=0.2)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

    for epoch in range(args.epochs):
        model.train()
        running = 0.0
        for tok, y in train_dl:
            optimizer.zero_grad()
            loss = criterion(model(tok), y)
            loss.backward()
            optimizer.step()
            running += loss.item() * len(y)
        print(f"epoch {epoch + 1}: train loss {running / len(train):.4f}  "
              f"valid acc {accuracy(model, valid_dl):.4f}")
    print(f"final valid accuracy: {accuracy(model, valid_dl):.4f}")


if __name__ == "__main__":
    main()
