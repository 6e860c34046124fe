import dataclasses, os
import random

import torch
from torch import nn


@dataclasses.dataclass
class Config:
    seed: int = 0
    lr: float = 5e-3
    warmup_steps: int = 60
    epochs: int = 5
    batch_size: int = 50
    dim: int = 48
    max_tokens: int = 40
    dropout: float = 0.4


cfg = Config()
random.seed(cfg.seed)
torch.manual_seed(cfg.seed)


def load_reviews(limit=5000):
    rows = []
    for ext, y in ("pos", 1), ("neg", 0):
        with open(os.environ["TRUELOOP_DATA"] + f"/movie-reviews/rt-polarity.{ext}", encoding="latin-1") as f:
            rows += [(line.split(), y) for line in f]
    random.shuffle(rows)
    return rows[:limit]


class Vocab:
    def __init__(self, sentences, min_count=2):
        counts = {}
        for s in sentences:
            for w in s:
                counts[w] = counts.get(w, 0) + 1
        self.ids = {w: i + 2 for i, w in enumerate(sorted(w for w, c in counts.items() if c >= min_count))}

    def __len__(self):
        return len(self.ids) + 2

    def encode(self, words, width):
        ids = [self.ids.get(w, 1) for w in words[:width]]
        return ids + [0] * (width - len(ids))


class MeanClassifier(nn.Module):
    def __init__(self, vocab_size):
        super().__init__()
        self.emb = nn.EmbeddingBag(vocab_size, cfg.dim, padding_idx=0)
        self.drop = nn.Dropout(cfg.dropout)
        self.fc = nn.Sequential(nn.Linear(cfg.dim, cfg.dim), nn.ReLU(), nn.Linear(cfg.dim, 2))

    def forward(self, ids):
        return self.fc(self.drop(self.emb(ids)))


rows = load_reviews()
train_rows, val_rows = rows[:4200], rows[4200:]
vocab = Vocab(w for w, _ in train_rows)
tensorize = lambda rs: (torch.tensor([vocab.encode(w, cfg.max_tokens) for w, _ in rs]), torch.tensor([y for _, y in rs]))
train_x, train_y = tensorize(train_rows)
val_x, val_y = tensorize(val_rows)

model = MeanClassifier(len(vocab))
optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
total_steps = cfg.epochs * (len(train_x) // cfg.batch_size)


def lr_at(step):
    if step < cfg.warmup_steps:
        return (step + 1) / cfg.warmup_steps
    return max(0.02, (total_steps - step) / (total_steps - cfg.warmup_steps))


scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_at)
loss_fn = nn.CrossEntropyLoss()
for epoch in range(cfg.epochs):
    model.train()
    running = 0.0
    for idx in torch.randperm(len(train_x)).split(cfg.batch_size):
        loss = loss_fn(model(train_x[idx]), train_y[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.item() * len(idx)
    scheduler.step()
    model.eval()
    with torch.no_grad():
        acc = (model(val_x).argmax(1) == val_y).float().mean().item()
    print(f"epoch {epoch} train loss {running / len(train_x):.4f} val acc {acc:.3f}")
