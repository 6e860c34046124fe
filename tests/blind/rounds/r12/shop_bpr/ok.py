"""Matrix factorisation with pairwise (BPR) loss; leave-one-out hit rate over the whole catalogue."""
import argparse

import numpy as np
import torch
from torch import nn


def make_interactions(n_users, n_items, rng):
    u = rng.normal(size=(n_users, 4))
    v = rng.normal(size=(n_items, 4))
    pop = rng.normal(0, 0.6, n_items)
    util = 1.6 * u @ v.T + pop + rng.gumbel(size=(n_users, n_items))
    order = np.argsort(-util, axis=1)
    rows, held = [], np.zeros(n_users, np.int64)
    for user in range(n_users):
        k = rng.integers(20, 40)
        liked = rng.permutation(order[user, :k])
        held[user] = liked[0]
        rows += [(user, item) for item in liked[1:]]
    return np.array(rows), held


class PairSampler:
    def __init__(self, pairs, n_users, n_items, batch, rng):
        self.pairs, self.n_users, self.n_items = pairs, n_users, n_items
        self.batch, self.rng = batch, rng
        self.seen = [set() for _ in range(n_users)]
        for user, item in pairs:
            self.seen[user].add(item)

    def negative(self, user):
        j = self.rng.integers(self.n_items)
        while j in self.seen[user]:
            j = self.rng.integers(self.n_items)
        return j

    def __iter__(self):
        perm = self.rng.permutation(len(self.pairs))
        for s in range(0, len(perm), self.batch):
            p = self.pairs[perm[s:s + self.batch]]
            neg = np.array([self.negative(u) for u in p[:, 0]])
            yield torch.from_numpy(p[:, 0]), torch.from_numpy(p[:, 1]), torch.from_numpy(neg)

    def __len__(self):
        return -(-len(self.pairs) // self.batch)


class MF(nn.Module):
    def __init__(self, n_users, n_items, dim):
        super().__init__()
        self.user = nn.Embedding(n_users, dim)
        self.item = nn.Embedding(n_items, dim)
        self.bias = nn.Embedding(n_items, 1)
        nn.init.normal_(self.user.weight, std=0.05)
        nn.init.normal_(self.item.weight, std=0.05)
        nn.init.zeros_(self.bias.weight)

    def forward(self, u, i):
        return (self.user(u) * self.item(i)).sum(1) + self.bias(i).squeeze(1)

    def all_scores(self):
        return self.user.weight @ self.item.weight.t() + self.bias.weight.t()


@torch.no_grad()
def hit_rate(model, sampler, held, k):
    s = model.all_scores()
    for user, items in enumerate(sampler.seen):
        s[user, list(items)] = -float("inf")
    top = s.topk(k, dim=1).indices
    return (top == torch.from_numpy(held)[:, None]).any(1).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--users", type=int, default=400)
    ap.add_argument("--items", type=int, default=1000)
    ap.add_argument("--dim", type=int, default=12)
    ap.add_argument("--epochs", type=int, default=25)
    ap.add_argument("--lr", type=float, default=0.01)
    ap.add_argument("--l2", type=float, default=1e-3)
    args = ap.parse_args()
    rng = np.random.default_rng(8)
    torch.manual_seed(8)
    pairs, held = make_interactions(args.users, args.items, rng)
    sampler = PairSampler(pairs, args.users, args.items, 256, rng)
    model = MF(args.users, args.items, args.dim)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    print(f"{len(pairs)} interactions, density {len(pairs) / args.users / args.items:.3%}")
    for epoch in range(args.epochs):
        running = 0.0
        for u, i, j in sampler:
            margin = model(u, i) - model(u, j)
            reg = sum(e.pow(2).sum() for e in (model.user(u), model.item(i), model.item(j))) / len(u)
            loss = -nn.functional.logsigmoid(margin).mean() + args.l2 * reg
            opt.zero_grad()
            loss.backward()
            opt.step()
            running += loss.item()
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1} bpr {running / len(sampler):.4f}")
    print(f"hit rate in the first twenty {hit_rate(model, sampler, held, 20):.4f}")


if __name__ == "__main__":
    main()
