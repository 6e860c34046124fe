"""Main finding of a radiology report."""
import collections
import json
import os
import sys

import torch
from torch import nn

PAD, UNK = 0, 1


def read_reports(path):
    folds = {"train": [], "dev": []}
    with open(path) as f:
        for line in f:
            r = json.loads(line)
            folds[r["fold"]].append((r["text"].lower().split(), r["label"]))
    return folds["train"], folds["dev"]


class Vocabulary:
    def __init__(self, reports, min_count):
        counts = collections.Counter(w for words, _ in reports for w in words)
        kept = sorted(w for w, c in counts.items() if c >= min_count)
        self.index = {w: i + 2 for i, w in enumerate(kept)}

    def __len__(self):
        return len(self.index) + 2

    def encode(self, words, max_tokens):
        ids = [self.index.get(w, UNK) for w in words[:max_tokens]]
        return ids + [PAD] * (max_tokens - len(ids))


class ReportNet(nn.Module):
    """Bigram-aware bag of embeddings with attention pooling."""

    def __init__(self, n_words, n_labels, hp):
        super().__init__()
        self.embed = nn.Embedding(n_words, hp["embed"], padding_idx=PAD)
        self.local = nn.Conv1d(hp["embed"], hp["hidden"], 3, padding=1)
        self.score = nn.Linear(hp["hidden"], 1)
        self.drop = nn.Dropout(hp["dropout"])
        self.out = nn.Linear(hp["hidden"], n_labels)

    def forward(self, ids):
        h = torch.relu(self.local(self.embed(ids).transpose(1, 2))).transpose(1, 2)
        score = self.score(h).squeeze(-1).masked_fill(ids == PAD, -1e4)
        weight = score.softmax(1).unsqueeze(-1)
        return self.out(self.drop((weight * h).sum(1)))


def tensors(reports, vocab, labels, hp):
    ids = torch.tensor([vocab.encode(words, hp["max_tokens"]) for words, _ in reports])
    return ids, torch.tensor([labels.index(lab) for _, lab in reports])


def macro_f1(pred, truth, n):
    f1 = []
    for c in range(n):
        tp = ((pred == c) & (truth == c)).sum().item()
        wrong = ((pred == c) ^ (truth == c)).sum().item()
        f1.append(2 * tp / max(2 * tp + wrong, 1))
    return sum(f1) / n


def main():
    folder = sys.argv[1]
    with open(os.path.join(folder, "hparams.json")) as f:
        hp = json.load(f)
    torch.manual_seed(hp["seed"])
    train, dev = read_reports(os.path.join(folder, "reports.jsonl"))
    labels = sorted({lab for _, lab in train})
    vocab = Vocabulary(train, hp["min_count"])
    x, y = tensors(train, vocab, labels, hp)
    xd, yd = tensors(dev, vocab, labels, hp)
    print(f"{len(x)} reports, {len(vocab)} words, labels {labels}")

    net = ReportNet(len(vocab), len(labels), hp)
    opt = torch.optim.Adam(net.parameters(), lr=hp["lr"])
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, hp["epochs"])
    for epoch in range(1, hp["epochs"] + 1):
        net.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(hp["batch"]):
            loss = nn.functional.cross_entropy(net(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        sched.step()
        net.eval()
        with torch.no_grad():
            pred = net(xd).argmax(1)
        acc = (pred == yd).float().mean().item()
        print(f"epoch {epoch:2d}  loss {total / len(x):.4f}  dev accuracy {acc:.4f}")
    print(f"final dev macro F1 {macro_f1(pred, yd, len(labels)):.4f} accuracy {acc:.4f}")


if __name__ == "__main__":
    main()
