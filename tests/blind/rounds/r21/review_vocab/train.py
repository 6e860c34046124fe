"""Polarity of movie review sentences. python train.py FOLDER (with vocab.json, settings.json)"""
import json
import os
import sys
from pathlib import Path

import torch
import torch.nn as nn

HERE = Path(sys.argv[1])
REVIEWS = Path(os.environ["TRUELOOP_DATA"]) / "movie-reviews"


class Tokenizer:
    def __init__(self, path):
        with open(path, encoding="utf-8") as f:
            self.ids = json.load(f)
        self.pad, self.unk = self.ids["<pad>"], self.ids["<unk>"]

    def __len__(self):
        return len(self.ids)

    def encode(self, text, max_len):
        row = [self.ids.get(t, self.unk) for t in text.split()][:max_len]
        return row + [self.pad] * (max_len - len(row))


def load(tok, max_len):
    train, valid = ([], []), ([], [])
    for label, name in enumerate(("rt-polarity.neg", "rt-polarity.pos")):
        with open(REVIEWS / name, encoding="latin-1") as f:
            for i, line in enumerate(f):
                side = valid if i % 5 == 4 else train
                side[0].append(tok.encode(line, max_len))
                side[1].append(label)
    return [(torch.tensor(x), torch.tensor(y, dtype=torch.float32)) for x, y in (train, valid)]


class Polarity(nn.Module):
    def __init__(self, n_tokens, dim, hidden, dropout):
        super().__init__()
        self.emb = nn.Embedding(n_tokens, dim, padding_idx=0)
        with torch.no_grad():
            self.emb.weight.mul_(0.1)
        self.net = nn.Sequential(
            nn.Dropout(dropout), nn.Linear(2 * dim, hidden), nn.ReLU(),
            nn.Dropout(dropout), nn.Linear(hidden, 1),
        )

    def forward(self, tokens):
        real = (tokens != 0).unsqueeze(-1)
        e = self.emb(tokens)
        mean = (e * real).sum(1) / real.sum(1).clamp(min=1)
        peak = e.masked_fill(~real, -30.0).amax(1)
        return self.net(torch.cat([mean, peak], 1)).squeeze(1)


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    out = torch.cat([model(part) for part in x.split(512)])
    return ((out > 0).float() == y).float().mean().item()


def main():
    torch.manual_seed(6)
    with open(HERE / "settings.json") as f:
        cfg = json.load(f)
    tok = Tokenizer(HERE / "vocab.json")
    (x, y), (xv, yv) = load(tok, cfg["max_len"])
    print(f"vocabulary {len(tok)}, sentences {len(x)} + {len(xv)}")

    model = Polarity(len(tok), cfg["dim"], cfg["hidden"], cfg["dropout"])
    opt = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=0.01)
    loss_fn = nn.BCEWithLogitsLoss()
    for epoch in range(cfg["epochs"]):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(cfg["batch_size"]):
            loss = loss_fn(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        print(f"epoch {epoch + 1}: loss {total / len(x):.4f}, valid accuracy {accuracy(model, xv, yv):.4f}")
    print(f"validation accuracy: {accuracy(model, xv, yv):.4f}")


if __name__ == "__main__":
    main()
