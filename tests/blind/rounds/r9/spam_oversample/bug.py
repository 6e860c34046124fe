"""SMS spam filter: hashed words and word pairs, rare spam class balanced by oversampling."""
import random
import zlib

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

SEED, BUCKETS, EPOCHS = 21, 2048, 3
HAM = ("see you at the station later can we move dinner to friday i am running late mum called about "
       "the car did you get my notes the meeting is moved thanks for the lift happy birthday call me when home "
       "win that game what a prize idea free tonight or not").split()
SPAM = ("win cash prize claim now call free offer urgent reply stop txt code bonus selected winner "
        "guaranteed account click").split()


def message(rng, spam):
    n = rng.randint(6, 14)
    share = rng.choice([0.3, 0.4, 0.5, 0.6]) if spam else rng.choice([0.0, 0.0, 0.05, 0.1])
    words = [rng.choice(SPAM) if rng.random() < share else rng.choice(HAM) for _ in range(n)]
    if rng.random() < 0.4:
        words.insert(rng.randrange(n), "".join(rng.choice("0123456789") for _ in range(rng.randint(3, 6))))
    return " ".join(words)


def corpus(rng, n):
    rows = [(message(rng, i % 8 == 0), int(i % 8 == 0)) for i in range(n)]
    rng.shuffle(rows)
    return rows


def featurize(rows):
    x = torch.zeros(len(rows), BUCKETS)
    for i, (text, _) in enumerate(rows):
        words = text.split()
        for gram in words + [a + " " + b for a, b in zip(words, words[1:])]:
            x[i, zlib.crc32(gram.encode()) % BUCKETS] += 1
    x = torch.log1p(x)
    x = x / x.norm(dim=1, keepdim=True).clamp(min=1e-6)
    return x, torch.tensor([float(label) for _, label in rows])


def oversample(rows, rng):
    """Repeat spam messages until both classes are about equally frequent."""
    spam = [r for r in rows if r[1] == 1]
    ham = [r for r in rows if r[1] == 0]
    extra = rng.choices(spam, k=len(ham) - len(spam))
    rows = rows + extra
    rng.shuffle(rows)
    return rows


def f1(model, x, y):
    model.eval()
    with torch.no_grad():
        pred = model(x).squeeze(1) > 0
    tp = (pred & (y > 0.5)).sum().item()
    precision, recall = tp / max(int(pred.sum()), 1), tp / int(y.sum())
    return precision, recall, 2 * precision * recall / max(precision + recall, 1e-9)


def main():
    random.seed(SEED), np.random.seed(SEED), torch.manual_seed(SEED)
    rng = random.Random(SEED)
    inbox = oversample(corpus(rng, 1600), rng)
    cut = int(0.75 * len(inbox))
    train_rows, valid_rows = inbox[:cut], inbox[cut:]
    next_month = corpus(rng, 800)

    x, y = featurize(train_rows)
    vx, vy = featurize(valid_rows)
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    model = nn.Sequential(nn.Linear(BUCKETS, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 1))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss_fn = nn.BCEWithLogitsLoss()
    for epoch in range(EPOCHS):
        model.train()
        total = 0.0
        for bx, by in loader:
            loss = loss_fn(model(bx).squeeze(1), by)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        p, r, f = f1(model, vx, vy)
        print(f"epoch {epoch}: loss {total / len(loader):.3f} valid precision {p:.3f} recall {r:.3f} f1 {f:.3f}")
    p, r, f = f1(model, *featurize(next_month))
    print(f"next month: precision {p:.3f} recall {r:.3f} f1 {f:.3f}")


if __name__ == "__main__":
    main()
