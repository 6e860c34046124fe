"""Multi-label topic tagging of short support messages (bag of embeddings)."""
import random

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader

TAGS = ["billing", "refund", "login", "shipping", "bug", "feature", "cancel", "praise"]
PRIOR = [0.12, 0.08, 0.10, 0.14, 0.07, 0.06, 0.05, 0.09]
KEYWORDS_PER_TAG, COMMON_WORDS = 12, 200
VOCAB = 1 + COMMON_WORDS + KEYWORDS_PER_TAG * len(TAGS)      # 0 is padding


def make_messages(n, rng):
    out = []
    for _ in range(n):
        tags = rng.random(len(TAGS)) < np.array(PRIOR)
        words = list(rng.integers(1, 1 + COMMON_WORDS, rng.integers(5, 11)))
        for t in np.flatnonzero(tags):
            lo = 1 + COMMON_WORDS + t * KEYWORDS_PER_TAG
            words += list(rng.integers(lo, lo + KEYWORDS_PER_TAG, rng.integers(2, 4)))
        if rng.random() < 0.15:
            words.append(rng.integers(1 + COMMON_WORDS, VOCAB))
        rng.shuffle(words)
        out.append((words, tags.astype(np.float32)))
    return out


def collate(batch):
    width = max(len(w) for w, _ in batch)
    ids = torch.zeros(len(batch), width, dtype=torch.long)
    for r, (w, _) in enumerate(batch):
        ids[r, :len(w)] = torch.tensor(w)
    return ids, torch.from_numpy(np.stack([t for _, t in batch]))


class Tagger(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim, padding_idx=0)
        self.hidden = nn.Linear(dim, 48)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(48, len(TAGS))

    def forward(self, ids):
        mask = (ids != 0).unsqueeze(-1).float()
        mean = (self.emb(ids) * mask).sum(1) / mask.sum(1).clamp(min=1)
        return self.out(self.drop(torch.relu(self.hidden(mean))))


@torch.no_grad()
def evaluate(model, loader, loss_fn):
    model.eval()
    logits, target = [], []
    for ids, tags in loader:
        logits.append(model(ids))
        target.append(tags)
    logits, target = torch.cat(logits), torch.cat(target)
    pred = (logits > 0).float()
    tp = (pred * target).sum(0)
    f1 = 2 * tp / (pred.sum(0) + target.sum(0)).clamp(min=1)
    acc = (pred == target).float().mean()
    return loss_fn(logits, target).item(), acc.item(), f1.mean().item()


def main():
    torch.manual_seed(23)
    random.seed(23)
    rng = np.random.default_rng(23)
    train, valid = make_messages(4000, rng), make_messages(800, rng)
    train_loader = DataLoader(train, batch_size=64, shuffle=True, collate_fn=collate)
    valid_loader = DataLoader(valid, batch_size=200, collate_fn=collate)

    counts = torch.from_numpy(np.stack([t for _, t in train])).sum(0)
    negatives = len(train) - counts
    pos_weight = negatives / counts
    print("tag counts", dict(zip(TAGS, counts.int().tolist())))

    model = Tagger()
    loss_fn = nn.BCEWithLogitsLoss(pos_weight=pos_weight)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(7):
        model.train()
        total = 0.0
        for ids, tags in train_loader:
            loss = loss_fn(model(ids), tags)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        val_loss, acc, f1 = evaluate(model, valid_loader, loss_fn)
        print(f"epoch {epoch:2d} train {total / len(train_loader):.4f} valid {val_loss:.4f} "
              f"label-acc {acc:.4f} macro-F1 {f1:.4f}")


if __name__ == "__main__":
    main()
