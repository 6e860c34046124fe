"""Curriculum learning: a review classifier that sees short, simple reviews first."""
import os
from collections import Counter
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn

ROOT = Path(os.environ["TRUELOOP_DATA"] + "/movie-reviews")
CFG = dict(seed=5, epochs=10, batch=64, lr=3e-3, start=0.15, warm_share=0.4, vocab=6000, max_len=40, dim=48)


def read(name, label):
    lines = (ROOT / name).read_text(encoding="latin-1").lower().splitlines()
    return [(line.split(), label) for line in dict.fromkeys(lines) if line.strip()]


def encode(rows, vocab):
    x = torch.zeros(len(rows), CFG["max_len"], dtype=torch.long)
    for i, (words, _) in enumerate(rows):
        ids = [vocab.get(w, 1) for w in words[:CFG["max_len"]]]
        x[i, :len(ids)] = torch.tensor(ids)
    return x, torch.tensor([float(label) for _, label in rows])


class Curriculum:
    """Opens the training set from its easiest part to all of it."""

    def __init__(self, difficulty, start, epochs, warm_share):
        self.order = torch.from_numpy(np.argsort(difficulty, kind="stable"))
        self.start = start
        self.epochs = epochs
        self.warm_share = warm_share

    def fraction(self, epoch):
        progress = min(1.0, epoch / self.epochs / self.warm_share)
        return self.start + (1 - self.start) * progress

    def batches(self, epoch, size):
        n = max(size, int(round(self.fraction(epoch) * len(self.order))))
        active = self.order[:n]
        return active[torch.randperm(n)].split(size)


class Classifier(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.emb = nn.EmbeddingBag(vocab, dim, mode="mean", padding_idx=0)
        self.drop = nn.Dropout(0.4)
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        return self.out(self.drop(self.emb(x))).squeeze(1)


def main():
    torch.manual_seed(CFG["seed"])
    rng = np.random.default_rng(CFG["seed"])
    rows = read("rt-polarity.pos", 1) + read("rt-polarity.neg", 0)
    rows = [rows[i] for i in rng.permutation(len(rows))]
    valid_rows, train_rows = rows[:1500], rows[1500:]
    counts = Counter(w for words, _ in train_rows for w in words)
    vocab = {w: i + 2 for i, (w, _) in enumerate(counts.most_common(CFG["vocab"] - 2))}
    x, y = encode(train_rows, vocab)
    vx, vy = encode(valid_rows, vocab)

    total = sum(counts.values())
    rarity = [-sum(np.log(counts[w] / total) for w in words) for words, _ in train_rows]
    curriculum = Curriculum(np.array(rarity), CFG["start"], CFG["epochs"], CFG["warm_share"])

    model = Classifier(CFG["vocab"], CFG["dim"])
    opt = torch.optim.Adam(model.parameters(), lr=CFG["lr"])
    loss_fn = nn.BCEWithLogitsLoss()
    best, best_state = 0.0, None
    for epoch in range(CFG["epochs"]):
        model.train()
        losses = []
        for idx in curriculum.batches(epoch, CFG["batch"]):
            loss = loss_fn(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        model.eval()
        with torch.no_grad():
            out = model(vx)
            vloss = loss_fn(out, vy).item()
            acc = ((out > 0) == (vy > 0.5)).float().mean().item()
        if acc > best:
            best, best_state = acc, {k: v.clone() for k, v in model.state_dict().items()}
        print(f"epoch {epoch}: {len(losses)} batches, loss {np.mean(losses):.3f} valid {vloss:.3f} acc {acc:.3f}")
    model.load_state_dict(best_state)
    print(f"best valid accuracy {best:.3f}")


if __name__ == "__main__":
    main()
