import copy
from collections import defaultdict

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Graph:
    """A synthetic knowledge graph: places on a map, relations move between them."""

    def __init__(self, side=18, seed=2):
        rng = np.random.default_rng(seed)
        self.n_entities = side * side
        names = rng.permutation(self.n_entities)
        moves = [(1, 0), (0, 1), (1, 1), (2, -1), (-1, 2), (3, 0), (0, 3), (-2, -2)]
        self.n_relations = len(moves)
        triples = []
        for i in range(side):
            for j in range(side):
                for r, (di, dj) in enumerate(moves):
                    a, b = i + di, j + dj
                    if 0 <= a < side and 0 <= b < side:
                        triples.append((names[i * side + j], r, names[a * side + b]))
        triples = rng.permutation(np.array(triples))
        n = len(triples)
        self.train = torch.tensor(triples[:int(0.8 * n)])
        self.valid = torch.tensor(triples[int(0.8 * n):int(0.9 * n)])
        self.test = torch.tensor(triples[int(0.9 * n):])
        self.known = defaultdict(list)
        for h, r, t in triples.tolist():
            self.known[(h, r)].append(t)


class TransE(nn.Module):
    def __init__(self, n_entities, n_relations, dim=32, gamma=6.0):
        super().__init__()
        self.ent = nn.Embedding(n_entities, dim)
        self.rel = nn.Embedding(n_relations, dim)
        self.gamma = gamma
        nn.init.uniform_(self.ent.weight, -1, 1)
        nn.init.uniform_(self.rel.weight, -1, 1)

    def forward(self, h, r, t):
        return self.gamma - (self.ent(h) + self.rel(r) - self.ent(t)).abs().sum(-1)

    def score_tails(self, h, r):
        q = self.ent(h) + self.rel(r)
        return self.gamma - torch.cdist(q, self.ent.weight, p=1)


@torch.no_grad()
def rank_tails(model, graph, triples):
    """Filtered rank of the true tail."""
    model.eval()
    h, r, t = triples.t()
    scores = model.score_tails(h, r)
    true = scores.gather(1, t[:, None])
    for i, (a, b) in enumerate(zip(h.tolist(), r.tolist())):
        scores[i, graph.known[(a, b)]] = float("-inf")
    ranks = (scores >= true).sum(1).float() + 1
    return {"mean_rank": ranks.mean().item(), "mrr": (1 / ranks).mean().item(),
            "hits10": (ranks <= 10).float().mean().item()}


def train_epoch(model, graph, opt, batch_size=256, n_neg=64, adv=1.0):
    model.train()
    total = 0.0
    for idx in torch.randperm(len(graph.train)).split(batch_size):
        h, r, t = graph.train[idx].t()
        neg = torch.randint(graph.n_entities, (len(idx), n_neg))
        if torch.rand(()) < 0.5:
            neg_score = model(h[:, None], r[:, None], neg)
        else:
            neg_score = model(neg, r[:, None], t[:, None])
        weight = F.softmax(adv * neg_score, dim=1).detach()
        loss = -F.logsigmoid(model(h, r, t)).mean() - (weight * F.logsigmoid(-neg_score)).sum(1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(idx)
    return total / len(graph.train)


def main():
    torch.manual_seed(2)
    graph = Graph()
    print(f"{graph.n_entities} entities, {len(graph.train)} training triples")
    model = TransE(graph.n_entities, graph.n_relations)
    opt = torch.optim.Adam(model.parameters(), lr=0.02)
    checkpoints = []
    for epoch in range(1, 61):
        loss = train_epoch(model, graph, opt)
        if epoch % 5 == 0:
            metrics = rank_tails(model, graph, graph.valid)
            checkpoints.append({"epoch": epoch, **metrics, "state": copy.deepcopy(model.state_dict())})
            print(f"epoch {epoch:3d} loss {loss:.4f} valid MR {metrics['mean_rank']:.1f} MRR {metrics['mrr']:.3f}",
                  flush=True)
    best = min(checkpoints, key=lambda c: c["mean_rank"])
    model.load_state_dict(best["state"])
    result = rank_tails(model, graph, graph.test)
    print(f"test (epoch {best['epoch']}): MR {result['mean_rank']:.2f} MRR {result['mrr']:.4f} "
          f"hits@10 {result['hits10']:.4f}")


if __name__ == "__main__":
    main()
