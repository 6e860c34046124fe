"""Multi-label topic tagging of short news items: bag of words, several tags per item."""
import json
import os
from collections import Counter

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

MAX_LEN = 40


def read_items(folder):
    with open(os.path.join(folder, "items.jsonl"), encoding="utf-8") as f:
        texts = [json.loads(line)["text"].split() for line in f]
    targets = np.load(os.path.join(folder, "targets.npy"))
    assert len(texts) == len(targets)
    return texts, targets


def build_vocab(texts, min_count=3):
    counts = Counter(w for t in texts for w in t)
    words = sorted(w for w, c in counts.items() if c >= min_count)
    return {w: i + 2 for i, w in enumerate(words)}


class Items(Dataset):
    def __init__(self, texts, targets, vocab):
        self.ids = torch.zeros(len(texts), MAX_LEN, dtype=torch.long)
        for i, words in enumerate(texts):
            row = [vocab.get(w, 1) for w in words[:MAX_LEN]]
            self.ids[i, :len(row)] = torch.tensor(row)
        self.targets = torch.from_numpy(targets.astype(np.float32))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"ids": self.ids[i], "tags": self.targets[i]}


class Tagger(nn.Module):
    def __init__(self, n_words, n_tags, dim=32):
        super().__init__()
        self.emb = nn.Embedding(n_words, dim, padding_idx=0)
        self.mlp = nn.Sequential(nn.Linear(dim, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, n_tags))

    def forward(self, ids):
        keep = (ids != 0).unsqueeze(-1)
        mean = (self.emb(ids) * keep).sum(1) / keep.sum(1).clamp(min=1)
        return self.mlp(mean)


@torch.no_grad()
def evaluate(model, loader, criterion):
    model.eval()
    logits, tags = [], []
    for batch in loader:
        logits.append(model(batch["ids"]))
        tags.append(batch["tags"])
    logits, tags = torch.cat(logits), torch.cat(tags)
    pred, true = logits > 0, tags > 0.5
    tp = (pred & true).sum(0).double()
    denom = pred.sum(0) + true.sum(0)
    micro = (2 * tp.sum() / denom.sum().clamp(min=1)).item()
    macro = (2 * tp / denom.clamp(min=1)).mean().item()
    return criterion(logits, tags).item(), micro, macro


def main():
    torch.manual_seed(0)
    with open("options.json") as f:
        opts = json.load(f)
    texts, targets = read_items("train")
    vtexts, vtargets = read_items("valid")
    vocab = build_vocab(texts)
    train, valid = Items(texts, targets, vocab), Items(vtexts, vtargets, vocab)
    print(f"{len(train)} train items, {len(valid)} valid items, {len(vocab)} words, "
          f"{targets.shape[1]} tags, {targets.sum(1).mean():.2f} tags per item")
    train_loader = DataLoader(train, batch_size=opts["batch_size"], shuffle=True)
    valid_loader = DataLoader(valid, batch_size=500)

    model = Tagger(len(vocab) + 2, targets.shape[1])
    criterion = nn.BCEWithLogitsLoss()
    opt = torch.optim.AdamW(model.parameters(), lr=opts["lr"], weight_decay=1e-3)
    for epoch in range(1, opts["epochs"] + 1):
        model.train()
        total = 0.0
        for batch in train_loader:
            opt.zero_grad()
            loss = criterion(model(batch["ids"]), batch["tags"])
            loss.backward()
            opt.step()
            total += loss.item() * len(batch["ids"])
        val_loss, micro, macro = evaluate(model, valid_loader, criterion)
        print(f"epoch {epoch:2d}  train loss {total / len(train):.4f}  val loss {val_loss:.4f}  "
              f"val micro F1 {micro:.4f}  val macro F1 {macro:.4f}")


if __name__ == "__main__":
    main()
