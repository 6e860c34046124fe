"""Matrix factorisation with BPR loss and popularity-weighted negatives."""
import csv
import json
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def read_pairs(path):
    with open(path) as f:
        r = csv.reader(f)
        next(r)
        return np.array([[int(u), int(i)] for u, i in r])


class NegativeSampler:
    def __init__(self, train, n_items, kind, power):
        counts = np.bincount(train[:, 1], minlength=n_items).astype(float)
        weights = counts ** power if kind == "popularity" else np.ones(n_items)
        self.probs = torch.from_numpy(weights / weights.sum())
        self.n_items = n_items
        self.seen = torch.from_numpy(np.unique(train[:, 0] * n_items + train[:, 1]))

    def draw(self, users, k):
        neg = torch.multinomial(self.probs, len(users) * k, replacement=True).view(len(users), k)
        for _ in range(3):
            clash = torch.isin(users[:, None] * self.n_items + neg, self.seen)
            if not clash.any():
                break
            neg[clash] = torch.multinomial(self.probs, int(clash.sum()), replacement=True)
        return neg


class BPR(nn.Module):
    def __init__(self, n_users, n_items, dim):
        super().__init__()
        self.user = nn.Embedding(n_users, dim)
        self.item = nn.Embedding(n_items, dim)
        self.bias = nn.Parameter(torch.zeros(n_items))
        nn.init.normal_(self.user.weight, std=0.1)
        nn.init.normal_(self.item.weight, std=0.1)

    def score(self, users, items):
        return (self.user(users).unsqueeze(1) * self.item(items)).sum(-1) + self.bias[items]

    def full(self):
        return self.user.weight @ self.item.weight.t() + self.bias


@torch.no_grad()
def ranking_metrics(model, train, valid, k=20):
    model.eval()
    scores = model.full()
    scores[train[:, 0], train[:, 1]] = -float("inf")
    top = scores.topk(k, dim=1).indices.tolist()
    truth = defaultdict(set)
    for u, i in valid.tolist():
        truth[u].add(i)
    recall, ndcg = [], []
    for u, items in truth.items():
        hits = [1.0 if i in items else 0.0 for i in top[u]]
        recall.append(sum(hits) / len(items))
        ideal = sum(1 / np.log2(r + 2) for r in range(len(items)))
        ndcg.append(sum(h / np.log2(r + 2) for r, h in enumerate(hits)) / ideal)
    return float(np.mean(recall)), float(np.mean(ndcg))


def main(root):
    cfg = json.loads((root / "config.json").read_text())
    torch.manual_seed(cfg["seed"])
    train, valid = read_pairs(root / "train.csv"), read_pairs(root / "valid.csv")
    n_users = max(train[:, 0].max(), valid[:, 0].max()) + 1
    n_items = max(train[:, 1].max(), valid[:, 1].max()) + 1
    sampler = NegativeSampler(train, n_items, **cfg["negative_sampler"])
    pairs = torch.from_numpy(train)
    model = BPR(int(n_users), int(n_items), cfg["dim"])
    opt = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=cfg["weight_decay"])
    print(f"{n_users} users, {n_items} items, {len(train)} train / {len(valid)} valid")
    for epoch in range(cfg["epochs"]):
        model.train()
        total, batches = 0.0, 0
        for b in torch.randperm(len(pairs)).split(cfg["batch_size"]):
            u, i = pairs[b, 0], pairs[b, 1]
            neg = sampler.draw(u, cfg["num_negatives"])
            loss = -F.logsigmoid(model.score(u, i[:, None]) - model.score(u, neg)).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
            batches += 1
        recall, ndcg = ranking_metrics(model, train, valid)
        print(f"epoch {epoch:2d} bpr {total / batches:.4f} recall@20 {recall:.4f} ndcg@20 {ndcg:.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
