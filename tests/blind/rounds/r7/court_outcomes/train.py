"""Classify court decisions (granted / denied / remanded) from their text."""
import json
import sys
from collections import Counter
from pathlib import Path

import torch
import torch.nn as nn

LABELS = ["granted", "denied", "remanded"]


def read_jsonl(path):
    return [json.loads(line) for line in open(path)]


class Encoder:
    def __init__(self, docs, max_tokens):
        words = Counter(w for d in docs for w in d["text"].lower().split())
        self.index = {w: i + 2 for i, (w, c) in enumerate(words.most_common()) if c >= 2}
        self.max_tokens = max_tokens

    def __call__(self, docs):
        ids = torch.zeros(len(docs), self.max_tokens, dtype=torch.long)
        for r, d in enumerate(docs):
            toks = [self.index.get(w, 1) for w in d["text"].lower().split()][:self.max_tokens]
            ids[r, :len(toks)] = torch.tensor(toks)
        return ids, torch.tensor([LABELS.index(d["label"]) for d in docs])


class DecisionNet(nn.Module):
    def __init__(self, n_words, dim, dropout):
        super().__init__()
        self.emb = nn.Embedding(n_words, dim, padding_idx=0)
        self.conv = nn.Conv1d(dim, 32, 3, padding=1)
        self.drop = nn.Dropout(dropout)
        self.out = nn.Linear(32, len(LABELS))

    def forward(self, ids):
        h = torch.relu(self.conv(self.emb(ids).transpose(1, 2)))
        h = h.masked_fill((ids == 0)[:, None, :], 0.0).max(dim=2).values
        return self.out(self.drop(h))


def main(folder):
    cfg = json.loads((folder / "config.json").read_text())
    torch.manual_seed(cfg["seed"])
    train, val = read_jsonl(folder / "train.jsonl"), read_jsonl(folder / "val.jsonl")
    encode = Encoder(train, cfg["max_tokens"])
    (xt, yt), (xv, yv) = encode(train), encode(val)
    model = DecisionNet(len(encode.index) + 2, cfg["dim"], cfg["dropout"])
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    ce = nn.CrossEntropyLoss()
    for epoch in range(1, cfg["epochs"] + 1):
        model.train()
        losses = []
        for idx in torch.randperm(len(xt)).split(cfg["batch_size"]):
            loss = ce(model(xt[idx]), yt[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        model.eval()
        with torch.no_grad():
            logits = model(xv)
        acc = (logits.argmax(1) == yv).float().mean().item()
        print(f"epoch {epoch:2d} train loss {sum(losses) / len(losses):.4f} val loss {ce(logits, yv).item():.4f} val acc {acc:.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
