"""Sentence embeddings from paraphrase pairs: InfoNCE with in-batch negatives."""
import json
import sys
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F


def load_pairs(path):
    left, right = [], []
    for line in path.read_text().splitlines():
        a, b = line.split("\t")
        left.append([int(t) for t in a.split()])
        right.append([int(t) for t in b.split()])
    return torch.tensor(left), torch.tensor(right)


class SentenceEncoder(nn.Module):
    def __init__(self, vocab_size, dim):
        super().__init__()
        self.emb = nn.Embedding(vocab_size, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, tokens):
        return F.normalize(self.mlp(self.emb(tokens).mean(1)), dim=-1)


def info_nce(a, b, temperature):
    logits = a @ b.t() / temperature
    target = torch.arange(len(a))
    return 0.5 * (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target))


@torch.no_grad()
def retrieval(model, a, b):
    model.eval()
    sim = model(a) @ model(b).t()
    rank = (sim > sim.diag().unsqueeze(1)).sum(1)
    return (rank < 1).float().mean().item(), (rank < 5).float().mean().item()


def main():
    folder = Path(sys.argv[1])
    cfg = json.loads((folder / "config.json").read_text())
    torch.manual_seed(cfg["seed"])
    a, b = load_pairs(folder / "train_pairs.tsv")
    va, vb = load_pairs(folder / "valid_pairs.tsv")
    vocab_size = int(torch.cat([a, b]).max()) + 1
    model = SentenceEncoder(vocab_size, cfg["dim"])
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    r1, r5 = retrieval(model, va, vb)
    print(f"start: recall@1 {r1:.3f} recall@5 {r5:.3f}")

    for epoch in range(cfg["epochs"]):
        model.train()
        total, updates = 0.0, 0
        chunks = torch.randperm(len(a)).split(cfg["micro_batch"])
        chunks = chunks[:len(chunks) // cfg["accumulate"] * cfg["accumulate"]]
        for i, idx in enumerate(chunks):
            loss = info_nce(model(a[idx]), model(b[idx]), cfg["temperature"])
            (loss / cfg["accumulate"]).backward()
            total += loss.item()
            if (i + 1) % cfg["accumulate"] == 0:
                opt.step()
                opt.zero_grad()
                updates += 1
        r1, r5 = retrieval(model, va, vb)
        print(f"epoch {epoch}: {updates} updates, loss {total / len(chunks):.4f} recall@1 {r1:.3f} recall@5 {r5:.3f}")


if __name__ == "__main__":
    main()
