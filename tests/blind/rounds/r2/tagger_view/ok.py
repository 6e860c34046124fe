import random

import torch
import torch.nn as nn

TAGS = ["PAD", "O", "B-FROM", "B-TO", "B-DAY", "B-AIRLINE"]
CITIES = "paris london berlin madrid rome oslo lisbon vienna dublin prague".split()
DAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
LINES = "united delta iberia ryanair lufthansa".split()
FILL = "please show me flights i want to book a cheap seat for my trip thanks the".split()


def make_sentence(rng):
    words, tags = [], []

    def add(ws, ts):
        words.extend(ws)
        tags.extend(ts)

    start = rng.choices(FILL, k=rng.randint(2, 5))
    add(start, ["O"] * len(start))
    parts = [(["from", rng.choice(CITIES)], ["O", "B-FROM"]), (["to", rng.choice(CITIES)], ["O", "B-TO"]),
             (["on", rng.choice(DAYS)], ["O", "B-DAY"]), (["with", rng.choice(LINES)], ["O", "B-AIRLINE"])]
    rng.shuffle(parts)
    for ws, ts in parts[:rng.randint(2, 4)]:
        add(ws, ts)
        extra = rng.choices(FILL, k=rng.randint(0, 2))
        add(extra, ["O"] * len(extra))
    return words, tags


class Tagger(nn.Module):
    def __init__(self, vocab, ntags, dim=24, hidden=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.rnn = nn.LSTM(dim, hidden, batch_first=True, bidirectional=True)
        self.proj = nn.Linear(2 * hidden, ntags)

    def forward(self, x):
        h, _ = self.rnn(self.emb(x))
        return self.proj(h)


def to_tensors(data, vocab):
    T = max(len(w) for w, _ in data)
    x = torch.zeros(len(data), T, dtype=torch.long)
    y = torch.zeros(len(data), T, dtype=torch.long)
    for i, (w, t) in enumerate(data):
        x[i, :len(w)] = torch.tensor([vocab[v] for v in w])
        y[i, :len(t)] = torch.tensor([TAGS.index(v) for v in t])
    return x, y


def slot_accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        pred = model(x).argmax(-1)
    slots = y > 1
    return (pred[slots] == y[slots]).float().mean().item()


if __name__ == "__main__":
    rng = random.Random(5)
    torch.manual_seed(5)
    data = [make_sentence(rng) for _ in range(1800)]
    words = sorted(set(CITIES + DAYS + LINES + FILL + ["from", "to", "on", "with"]))
    vocab = {w: i + 1 for i, w in enumerate(words)}
    x, y = to_tensors(data, vocab)
    xt, yt, xv, yv = x[:1500], y[:1500], x[1500:], y[1500:]
    model = Tagger(len(vocab) + 1, len(TAGS))
    criterion = nn.CrossEntropyLoss(ignore_index=0)
    optim = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(4):
        model.train()
        total = 0.0
        perm = torch.randperm(len(xt))
        for idx in perm.split(50):
            logits = model(xt[idx])
            B, T, C = logits.shape
            loss = criterion(logits.view(B * T, C), yt[idx].view(B * T))
            optim.zero_grad()
            loss.backward()
            optim.step()
            total += loss.item() * len(idx)
        print(f"epoch {epoch}: loss {total / len(xt):.4f} slot accuracy {slot_accuracy(model, xv, yv):.3f}")
