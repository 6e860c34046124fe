import json
import random
import sys

import torch
from torch import nn
from torch.nn import functional as F

FOLDER = sys.argv[1]
random.seed(0)
torch.manual_seed(0)


def load(name):
    with open(f"{FOLDER}/{name}.json") as f:
        return json.load(f)


class FaqEncoder(nn.Module):
    def __init__(self, vocab_size, dim):
        super().__init__()
        self.words = nn.EmbeddingBag(vocab_size, dim)
        self.weight = nn.Linear(dim, dim)

    def forward(self, ids):
        h = self.words(ids)
        return F.normalize(h + torch.tanh(self.weight(h)), dim=-1)


def mrr(encoder, questions, answers):
    encoder.eval()
    with torch.no_grad():
        scores = encoder(questions) @ encoder(answers).t()
    own = scores.diagonal()[:, None]
    rank = (scores > own).sum(1) + 1
    return (1.0 / rank).mean().item()


def main():
    cfg, train, val = load("model"), load("train"), load("val")
    vocab = {f"t{i}": i for i in range(240)}
    ids = lambda rows: torch.tensor([[vocab[w] for w in r] for r in rows])
    answers = ids([e["answer"] for e in train])
    questions = torch.stack([ids(e["questions"]) for e in train])
    val_q, val_a = ids([e["questions"][0] for e in val]), ids([e["answer"] for e in val])
    encoder = FaqEncoder(len(vocab), cfg["dim"])
    opt = torch.optim.Adam(encoder.parameters(), lr=cfg["lr"])
    print(f"before training: val MRR {mrr(encoder, val_q, val_a):.3f}")
    for epoch in range(cfg["epochs"]):
        encoder.train()
        total = 0.0
        batches = torch.randperm(len(answers)).split(cfg["batch_size"])
        for idx in batches:
            pick = torch.randint(3, (len(idx),))
            q = encoder(questions[idx, pick])
            a = encoder(answers[idx])
            scores = q @ a.t() / cfg["temperature"]
            loss = F.cross_entropy(scores, torch.arange(len(idx)))
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        if epoch % 3 == 2:
            print(f"epoch {epoch} loss {total / len(batches):.3f} val MRR {mrr(encoder, val_q, val_a):.3f}")


main()
