"""Route customer questions to a support queue (embedding bag + MLP)."""
import csv
import re

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader


def load_rows():
    with open("data/routes.csv", newline="") as fh:
        queue_of = {row["id"]: row["queue"] for row in csv.DictReader(fh)}
    with open("data/questions.csv", newline="") as fh:
        questions = list(csv.DictReader(fh))
    rows = [(q["text"], queue_of[q["id"]]) for q in questions if q["id"] in queue_of]
    return rows


def tokenize(text):
    return re.findall(r"[a-z]+", text.lower())


class Vocabulary:
    def __init__(self, texts, minimum=3):
        counts = {}
        for text in texts:
            for t in tokenize(text):
                counts[t] = counts.get(t, 0) + 1
        self.index = {"<unk>": 0}
        for t in sorted(counts):
            if counts[t] >= minimum:
                self.index[t] = len(self.index)

    def __len__(self):
        return len(self.index)

    def ids(self, text):
        return [self.index.get(t, 0) for t in tokenize(text)]


class Router(nn.Module):
    def __init__(self, vocab_size, n_queues, dim=32):
        super().__init__()
        self.bag = nn.EmbeddingBag(vocab_size, dim, mode="mean")
        self.mlp = nn.Sequential(nn.Linear(dim, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, n_queues))

    def forward(self, tokens, offsets):
        return self.mlp(self.bag(tokens, offsets))


class Collate:
    def __init__(self, vocab, queues):
        self.vocab, self.queues = vocab, {q: i for i, q in enumerate(queues)}

    def __call__(self, rows):
        ids = [self.vocab.ids(text) for text, _ in rows]
        offsets = np.cumsum([0] + [len(i) for i in ids[:-1]])
        return (torch.tensor([t for i in ids for t in i]), torch.from_numpy(offsets),
                torch.tensor([self.queues[q] for _, q in rows]))


def run_epoch(model, loader, loss_fn, opt=None):
    model.train(opt is not None)
    total, hit, n = 0.0, 0, 0
    with torch.set_grad_enabled(opt is not None):
        for tokens, offsets, y in loader:
            out = model(tokens, offsets)
            loss = loss_fn(out, y)
            if opt is not None:
                opt.zero_grad()
                loss.backward()
                opt.step()
            total += loss.item() * len(y)
            hit += (out.argmax(1) == y).sum().item()
            n += len(y)
    return total / n, hit / n


def main():
    torch.set_num_threads(1)
    torch.manual_seed(10)
    rows = load_rows()
    order = np.random.default_rng(10).permutation(len(rows))
    cut = int(0.8 * len(rows))
    train, val = [rows[i] for i in order[:cut]], [rows[i] for i in order[cut:]]
    vocab = Vocabulary(text for text, _ in train)
    queues = sorted({q for _, q in train})
    collate = Collate(vocab, queues)
    train_loader = DataLoader(train, batch_size=32, shuffle=True, collate_fn=collate)
    val_loader = DataLoader(val, batch_size=200, collate_fn=collate)
    print(f"{len(train)} train, {len(val)} val questions, {len(vocab)} words, queues {queues}")
    model = Router(len(vocab), len(queues))
    loss_fn = nn.CrossEntropyLoss()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(1, 9):
        tl, ta = run_epoch(model, train_loader, loss_fn, opt)
        vl, va = run_epoch(model, val_loader, loss_fn)
        print(f"epoch {epoch} train loss {tl:.4f} acc {ta:.4f} | val loss {vl:.4f} acc {va:.4f}")


if __name__ == "__main__":
    main()
