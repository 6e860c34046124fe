"""Ticket routing with a bag-of-embeddings model; stage 1 pretrains, stage 2 continues from the file."""
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

QUEUES = ["billing", "network", "account", "hardware", "shipping", "refunds"]


def make_tickets(n, seed):
    rng = random.Random(seed)
    topic_words = {q: [f"{q[:4]}{i:02d}" for i in range(60)] for q in QUEUES}
    filler = [f"word{i:03d}" for i in range(150)]
    tickets = []
    for _ in range(n):
        label = rng.randrange(len(QUEUES))
        other = rng.randrange(len(QUEUES))
        words = rng.choices(filler, k=10)
        words += rng.choices(topic_words[QUEUES[label]], k=3)
        words += rng.choices(topic_words[QUEUES[other]], k=1)
        rng.shuffle(words)
        tickets.append((" ".join(words), label))
    return tickets


def build_vocab(texts):
    words = set(w for t in texts for w in t.split())
    return {w: i + 1 for i, w in enumerate(sorted(words))}


def encode(tickets, vocab, length=14):
    ids = torch.zeros(len(tickets), length, dtype=torch.long)
    for r, (text, _) in enumerate(tickets):
        row = [vocab.get(w, 0) for w in text.split()][:length]
        ids[r, :len(row)] = torch.tensor(row)
    return ids, torch.tensor([y for _, y in tickets])


class Router(nn.Module):
    def __init__(self, n_words, dim=48):
        super().__init__()
        self.emb = nn.Embedding(n_words + 1, dim, padding_idx=0)
        self.net = nn.Sequential(nn.Linear(dim, 64), nn.ReLU(), nn.Dropout(0.2),
                                 nn.Linear(64, len(QUEUES)))

    def forward(self, ids):
        mask = (ids > 0).unsqueeze(-1).float()
        pooled = (self.emb(ids) * mask).sum(1) / mask.sum(1).clamp(min=1)
        return self.net(pooled)


def fit(model, opt, ids, labels, epochs):
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(ids)).split(64):
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(ids[idx]), labels[idx])
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        print(f"  epoch {epoch} loss {total / len(ids):.4f}", flush=True)


def stage(number, folder):
    torch.manual_seed(10 + number)
    tickets = make_tickets(2600, seed=5)
    train, test = tickets[:2000], tickets[2000:]
    vocab = build_vocab([t for t, _ in train])
    ids, labels = encode(train, vocab)
    model = Router(len(vocab))
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    ckpt = folder / "router.pt"
    if ckpt.exists():
        state = torch.load(ckpt, weights_only=True)
        model.load_state_dict(state["model"])
        opt.load_state_dict(state["optimizer"])
        for group in opt.param_groups:
            group["lr"] = 2e-4
    fit(model, opt, ids, labels, epochs=14 if number == 1 else 3)
    torch.save({"model": model.state_dict(), "optimizer": opt.state_dict()}, ckpt)
    if number == 2:
        model.eval()
        with torch.no_grad():
            ids_t, labels_t = encode(test, vocab)
            acc = (model(ids_t).argmax(1) == labels_t).float().mean().item()
        print(f"test_acc={acc:.4f}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        stage(int(sys.argv[1]), Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as tmp:
            for number in (1, 2):
                print(f"stage {number}", flush=True)
                subprocess.run([sys.executable, __file__, str(number), tmp], check=True)
