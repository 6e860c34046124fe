"""Sentiment of short reviews on top of frozen pretrained word vectors."""
import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader


class ReviewModel(nn.Module):
    def __init__(self, vectors):
        super().__init__()
        self.bag = nn.EmbeddingBag.from_pretrained(vectors, freeze=True, mode="mean")
        self.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(vectors.shape[1], 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, tokens, offsets):
        return self.head(self.bag(tokens, offsets))


def load_reviews(path, vocab):
    out = []
    for line in path.read_text().splitlines():
        label, text = line.split("\t")
        ids = [vocab[w] for w in text.split() if w in vocab]
        out.append((ids, int(label == "pos")))
    return out


def collate(batch):
    tokens, offsets, labels = [], [], []
    for ids, label in batch:
        offsets.append(len(tokens))
        tokens.extend(ids)
        labels.append(label)
    return torch.tensor(tokens), torch.tensor(offsets), torch.tensor(labels)


def run_epoch(model, loader, opt=None):
    model.train(opt is not None)
    loss_sum = hits = seen = 0
    for tokens, offsets, labels in loader:
        with torch.set_grad_enabled(opt is not None):
            logits = model(tokens, offsets)
            loss = nn.functional.cross_entropy(logits, labels)
        if opt is not None:
            opt.zero_grad()
            loss.backward()
            opt.step()
        loss_sum += loss.item() * len(labels)
        hits += (logits.argmax(1) == labels).sum().item()
        seen += len(labels)
    return loss_sum / seen, hits / seen


def main():
    home = Path(sys.argv[1])
    torch.manual_seed(2)
    vocab = json.loads((home / "vocab.json").read_text())
    vectors = torch.from_numpy(np.load(home / "vectors.npy"))
    assert len(vocab) == len(vectors)
    train = DataLoader(load_reviews(home / "train.txt", vocab), batch_size=16, shuffle=True, collate_fn=collate)
    test = DataLoader(load_reviews(home / "test.txt", vocab), batch_size=100, collate_fn=collate)
    model = ReviewModel(vectors)
    opt = torch.optim.Adam(model.head.parameters(), lr=5e-3)
    for epoch in range(30):
        loss, acc = run_epoch(model, train, opt)
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1} train loss {loss:.3f} acc {acc:.3f}")
    print(f"test accuracy {run_epoch(model, test)[1]:.3f}")


if __name__ == "__main__":
    main()
