"""Multi-label tagging of customer tickets. Tags outside tags.txt (retired ones) are not trained."""
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader

UNK = 0


def read_tickets(path, tag_index):
    texts, targets = [], []
    for line in path.read_text().splitlines():
        text, tags = line.split("\t")
        row = torch.zeros(len(tag_index))
        for tag in tags.split("|"):
            if tag in tag_index:
                row[tag_index[tag]] = 1.0
        texts.append(text.split())
        targets.append(row)
    return texts, torch.stack(targets)


def build_vocab(texts, min_count=2):
    counts = Counter(w for t in texts for w in t)
    return {w: i + 1 for i, (w, c) in enumerate(counts.most_common()) if c >= min_count}


def collate(batch):
    flat, offsets, targets = [], [], []
    for ids, target in batch:
        offsets.append(len(flat))
        flat += ids
        targets.append(target)
    return torch.tensor(flat), torch.tensor(offsets), torch.stack(targets)


class TicketTagger(nn.Module):
    def __init__(self, vocab_size, n_tags, dim=32):
        super().__init__()
        self.bag = nn.EmbeddingBag(vocab_size, dim, mode="mean")
        self.mlp = nn.Sequential(nn.Dropout(0.1), nn.Linear(dim, 32), nn.ReLU(), nn.Linear(32, n_tags))

    def forward(self, flat, offsets):
        return self.mlp(self.bag(flat, offsets))


@torch.no_grad()
def evaluate(model, loader, loss_fn):
    model.eval()
    logits, targets = zip(*[(model(f, o), t) for f, o, t in loader])
    logits, targets = torch.cat(logits), torch.cat(targets)
    pred = (logits > 0).float()
    tp = (pred * targets).sum()
    return loss_fn(logits, targets).item(), (2 * tp / (pred.sum() + targets.sum())).item()


def main(folder, epochs=9):
    folder = Path(folder)
    torch.manual_seed(2)
    tags = folder.joinpath("tags.txt").read_text().split()
    tag_index = {t: i for i, t in enumerate(tags)}
    train_texts, train_y = read_tickets(folder / "train.tsv", tag_index)
    valid_texts, valid_y = read_tickets(folder / "valid.tsv", tag_index)
    vocab = build_vocab(train_texts)

    def encode(texts, y):
        return [([vocab.get(w, UNK) for w in t], row) for t, row in zip(texts, y)]

    train_loader = DataLoader(encode(train_texts, train_y), batch_size=36, shuffle=True, collate_fn=collate)
    valid_loader = DataLoader(encode(valid_texts, valid_y), batch_size=250, collate_fn=collate)
    model = TicketTagger(len(vocab) + 1, len(tags))
    loss_fn = nn.BCEWithLogitsLoss()
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    print(f"{len(train_texts)} tickets, {len(vocab)} words, {len(tags)} tags")
    for epoch in range(epochs):
        model.train()
        losses = []
        for flat, offsets, target in train_loader:
            loss = loss_fn(model(flat, offsets), target)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        vloss, f1 = evaluate(model, valid_loader, loss_fn)
        print(f"epoch {epoch}  train {np.mean(losses):.4f}  valid {vloss:.4f}  micro-F1 {f1:.4f}")


if __name__ == "__main__":
    main(sys.argv[1])
