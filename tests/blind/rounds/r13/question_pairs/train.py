"""Duplicate question detection with a shared mean-of-embeddings encoder."""
import csv
import json
import sys
from pathlib import Path
import torch
from torch import nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.gate = nn.Embedding(vocab, 1)

    def forward(self, x):
        w = torch.sigmoid(self.gate(x)) * (x > 0)[..., None]
        return (self.emb(x) * w).sum(1)


class Matcher(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.enc = Encoder(vocab, dim)
        self.head = nn.Sequential(nn.Linear(2 * dim, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, a, b):
        u, v = self.enc(a), self.enc(b)
        return self.head(torch.cat([(u - v).abs(), u * v], 1)).squeeze(1)


def batchify(path, ids, max_length):
    def enc(s):
        t = [ids.get(w, 1) for w in s.split()][:max_length]
        return t + [0] * (max_length - len(t))
    with open(path) as f:
        rows = list(csv.DictReader(f))
    return (torch.tensor([enc(r["q1"]) for r in rows]), torch.tensor([enc(r["q2"]) for r in rows]),
            torch.tensor([float(r["dup"]) for r in rows]))


def main():
    folder = Path(sys.argv[1])
    cfg = json.loads((folder / "config.json").read_text())
    ids = json.loads((folder / "tokenizer.json").read_text())
    torch.manual_seed(0)
    a, b, y = batchify(folder / "train.csv", ids, cfg["max_length"])
    ta, tb, ty = batchify(folder / "test.csv", ids, cfg["max_length"])
    model = Matcher(len(ids) + 2, cfg["dim"])
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    for epoch in range(cfg["epochs"]):
        model.train()
        tot = 0.0
        for idx in torch.randperm(len(y)).split(64):
            loss = F.binary_cross_entropy_with_logits(model(a[idx], b[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item() * len(idx)
        print(f"epoch {epoch} loss {tot / len(y):.4f}")
    model.eval()
    with torch.no_grad():
        print("final test accuracy", ((model(ta, tb) > 0).float() == ty).float().mean().item())


if __name__ == "__main__":
    main()
