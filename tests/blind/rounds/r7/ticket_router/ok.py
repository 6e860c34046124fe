"""Route support tickets to queues with a bag-of-embeddings model."""
import argparse
import random
from collections import Counter

import torch
import torch.nn as nn

QUEUES = ["abuse", "billing", "bug", "feature", "login", "shipping"]
SHARE = {"abuse": 0.04, "billing": 0.34, "bug": 0.30, "feature": 0.05, "login": 0.20, "shipping": 0.07}
COMMON = ["hello", "please", "help", "account", "app", "today", "again", "issue", "thanks", "need", "order", "page",
          "still", "cannot", "contact", "team", "asap", "email", "phone", "work"]
WORDS = {
    "abuse": ["harass", "report", "spam", "threat", "fake", "block", "offensive", "profile"],
    "billing": ["invoice", "charge", "refund", "card", "payment", "twice", "price", "tax"],
    "bug": ["crash", "error", "freeze", "report", "screen", "update", "version", "block"],
    "feature": ["wish", "add", "dark", "export", "option", "update", "screen", "version"],
    "login": ["password", "reset", "code", "locked", "signin", "profile", "twofactor", "error"],
    "shipping": ["parcel", "late", "courier", "tracking", "refund", "address", "charge", "box"],
}


def make_tickets(n, rng):
    names = list(SHARE)
    tickets = []
    for _ in range(n):
        q = rng.choices(names, weights=[SHARE[k] for k in names])[0]
        body = rng.choices(COMMON, k=rng.randint(5, 12)) + rng.choices(WORDS[q], k=rng.randint(1, 3))
        if rng.random() < 0.5:
            body += rng.choices(WORDS[rng.choice(names)], k=1)
        rng.shuffle(body)
        tickets.append((" ".join(body), q))
    return tickets


class Router(nn.Module):
    def __init__(self, n_words, dim=32):
        super().__init__()
        self.bag = nn.EmbeddingBag(n_words, dim, mode="sum")
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(dim, 48), nn.ReLU(), nn.Linear(48, len(QUEUES)))

    def forward(self, ids, offsets):
        return self.head(self.bag(ids, offsets))


def collate(batch, vocab):
    ids, offsets = [], []
    for text, _ in batch:
        offsets.append(len(ids))
        ids += [vocab.get(w, 0) for w in text.split()]
    return torch.tensor(ids), torch.tensor(offsets), torch.tensor([QUEUES.index(q) for _, q in batch])


def recall_per_queue(model, tickets, vocab):
    model.eval()
    with torch.no_grad():
        ids, off, y = collate(tickets, vocab)
        pred = model(ids, off).argmax(1)
    return [((pred == k) & (y == k)).sum().item() / max(1, (y == k).sum().item()) for k in range(len(QUEUES))]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--batch-size", type=int, default=64)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--seed", type=int, default=0)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    rng = random.Random(args.seed)
    train, val = make_tickets(3000, rng), make_tickets(1500, rng)
    vocab = {w: i + 1 for i, w in enumerate(sorted({w for t, _ in train for w in t.split()}))}

    counts = Counter(QUEUES.index(q) for _, q in train)
    weights = torch.tensor([len(train) / (len(QUEUES) * counts[k]) for k in range(len(QUEUES))])
    criterion = nn.CrossEntropyLoss(weight=weights)
    model = Router(len(vocab) + 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

    for epoch in range(1, args.epochs + 1):
        model.train()
        rng.shuffle(train)
        losses = []
        for i in range(0, len(train), args.batch_size):
            ids, off, y = collate(train[i:i + args.batch_size], vocab)
            loss = criterion(model(ids, off), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        rec = recall_per_queue(model, val, vocab)
        print(f"epoch {epoch:2d} loss {sum(losses) / len(losses):.4f} macro recall {sum(rec) / len(rec):.4f}")
    print("recall " + " ".join(f"{q}={r:.2f}" for q, r in zip(QUEUES, rec)))


if __name__ == "__main__":
    main()
