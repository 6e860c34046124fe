"""Intent detection for a home assistant: word + bigram embeddings, averaged."""
import json
import sys
from collections import Counter

import torch
from torch import nn

DIR = sys.argv[1]
S = json.load(open(f"{DIR}/settings.json"))
STOP = set(open(f"{DIR}/stopwords.txt").read().split())


def read(name):
    return [json.loads(line) for line in open(f"{DIR}/{name}")]


def terms(text):
    w = [t for t in text.lower().split() if t not in STOP]
    return w + [f"{a}_{b}" for a, b in zip(w, w[1:])]


def pack(rows, vocab, intents):
    ids, starts = [], []
    for r in rows:
        starts.append(len(ids))
        ids += [vocab[t] for t in terms(r["text"]) if t in vocab] or [0]
    return torch.tensor(ids), torch.tensor(starts), torch.tensor([intents.index(r["intent"]) for r in rows])


class Bag(nn.Module):
    def __init__(self, n_terms, dim, n_out):
        super().__init__()
        self.emb = nn.EmbeddingBag(n_terms, dim, mode="mean")
        self.out = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, n_out))

    def forward(self, ids, starts):
        return self.out(self.emb(ids, starts))


def main():
    torch.manual_seed(S["seed"])
    train, test = read("train.jsonl"), read("test.jsonl")
    counts = Counter(t for r in train for t in terms(r["text"]))
    vocab = {"<unk>": 0}
    for t, c in sorted(counts.items()):
        if c >= S["min_count"]:
            vocab[t] = len(vocab)
    intents = sorted({r["intent"] for r in train})
    model = Bag(len(vocab), S["dim"], len(intents))
    opt = torch.optim.Adam(model.parameters(), lr=S["lr"])
    for epoch in range(S["epochs"]):
        total = 0.0
        for idx in torch.randperm(len(train)).split(32):
            ids, starts, y = pack([train[i] for i in idx.tolist()], vocab, intents)
            loss = nn.functional.cross_entropy(model(ids, starts), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
        print(f"epoch {epoch} loss {total / len(train):.4f}")
    ids, starts, y = pack(test, vocab, intents)
    with torch.no_grad():
        acc = (model(ids, starts).argmax(1) == y).float().mean().item()
    print(f"{len(vocab)} terms, {len(intents)} intents, test accuracy {acc:.4f}")


main()
