# Keyword extraction as B/I/O tagging with a small convolutional tagger.
import json
import os
import sys

import torch
from torch import nn

TAGS = {"O": 0, "B": 1, "I": 2}


def read_docs(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def read_vocab(path):
    with open(path, encoding="utf-8") as f:
        return {w.strip(): i for i, w in enumerate(f)}


def to_tensors(docs, vocab):
    n = max(len(d["tokens"]) for d in docs)
    x = torch.full((len(docs), n), vocab["<pad>"])
    y = torch.full((len(docs), n), -100)
    for i, d in enumerate(docs):
        k = len(d["tokens"])
        x[i, :k] = torch.tensor([vocab.get(t.lower(), vocab["<unk>"]) for t in d["tokens"]])
        y[i, :k] = torch.tensor([TAGS[t] for t in d["tags"]])
    return x, y


class Tagger(nn.Module):
    def __init__(self, size, d=32):
        super().__init__()
        self.emb = nn.Embedding(size, d, padding_idx=0)
        self.conv = nn.Conv1d(d, 2 * d, 3, padding=1)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(3 * d, 3)

    def forward(self, x):
        e = self.drop(self.emb(x))
        c = torch.relu(self.conv(e.transpose(1, 2))).transpose(1, 2)
        return self.out(torch.cat([e, c], -1))


def phrases(tags):
    found, start = set(), None
    for i, t in enumerate(list(tags) + [0]):
        if start is not None and t != 2:
            found.add((start, i))
            start = None
        if t == 1:
            start = i
    return found


def f1(net, x, y):
    net.eval()
    with torch.no_grad():
        pred = net(x).argmax(-1)
    tp = np_ = ng = 0
    for p, g in zip(pred, y):
        k = int((g != -100).sum())
        a, b = phrases(p[:k].tolist()), phrases(g[:k].tolist())
        tp, np_, ng = tp + len(a & b), np_ + len(a), ng + len(b)
    return 2 * tp / max(1, np_ + ng)


folder = sys.argv[1]
torch.manual_seed(6)
vocab = read_vocab(os.path.join(folder, "vocab.txt"))
x, y = to_tensors(read_docs(os.path.join(folder, "train.jsonl")), vocab)
xt, yt = to_tensors(read_docs(os.path.join(folder, "test.jsonl")), vocab)
net = Tagger(len(vocab))
opt = torch.optim.Adam(net.parameters(), lr=4e-3)
lossf = nn.CrossEntropyLoss()
for epoch in range(8):
    net.train()
    losses = []
    for idx in torch.randperm(len(x)).split(24):
        loss = lossf(net(x[idx]).flatten(0, 1), y[idx].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    print(f"epoch {epoch} loss {sum(losses) / len(losses):.4f}")
print(f"keyword F1 on test documents {f1(net, xt, yt):.3f}")
