# GRU4Rec-style next item model with sampled negatives (BPR-max without the regulariser)
import sys
import os
import itertools
import numpy as np
import torch
from torch import nn


def load_events(path):
    """One list of items per user, in the order of the export."""
    with open(path) as f:
        next(f)
        pairs = [line.rstrip("\n").split("\t") for line in f]
    return [[int(i) for _, i in g] for _, g in itertools.groupby(pairs, key=lambda p: p[0])]


class GRU4Rec(nn.Module):
    def __init__(self, n_items, dim=32, hidden=48):
        super().__init__()
        self.inp = nn.Embedding(n_items, dim)
        self.gru = nn.GRU(dim, hidden, batch_first=True)
        self.out = nn.Embedding(n_items, hidden)
        self.bias = nn.Parameter(torch.zeros(n_items))

    def states(self, seq):
        return self.gru(self.inp(seq))[0]

    def score(self, h, items):
        return (h.unsqueeze(-2) * self.out(items)).sum(-1) + self.bias[items]

    def all_scores(self, h):
        return h @ self.out.weight.T + self.bias


def sampled_loss(model, h, target, n_items, k=40):
    neg = torch.randint(n_items, target.shape + (k,))
    cand = torch.cat([target.unsqueeze(-1), neg], dim=-1)
    s = model.score(h, cand)
    hit = torch.cat([torch.zeros_like(target, dtype=torch.bool).unsqueeze(-1), neg == target.unsqueeze(-1)], -1)
    return -s.masked_fill(hit, -1e9).log_softmax(-1)[..., 0].mean()


def recall(model, rows, k=5):
    model.eval()
    with torch.no_grad():
        s = model.all_scores(model.states(rows[:, :-1])[:, -1])
    return (s.topk(k, -1).indices == rows[:, -1:]).any(-1).float().mean().item()


def main(folder):
    torch.manual_seed(19)
    seqs = torch.tensor(load_events(os.path.join(folder, "events.tsv")))
    hold = torch.from_numpy(np.load(os.path.join(folder, "holdout.npy")))
    n_items = int(seqs.max()) + 1
    pick = torch.randperm(len(seqs))
    train, valid = seqs[pick[200:]], seqs[pick[:200]]
    model = GRU4Rec(n_items)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.08)
    for epoch in range(10):
        model.train()
        acc = []
        for rows in torch.randperm(len(train)).split(32):
            batch = train[rows]
            h = model.states(batch[:, :-1])
            loss = sampled_loss(model, h, batch[:, 1:], n_items)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            opt.step()
            acc.append(loss.item())
        print(f"epoch {epoch}: loss {np.mean(acc):.4f} valid recall@5 {recall(model, valid):.4f}")
    print(f"holdout recall@5 {recall(model, hold):.4f}")


if __name__ == "__main__":
    main(sys.argv[1])
