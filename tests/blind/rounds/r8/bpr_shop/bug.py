"""Matrix factorisation with BPR on implicit purchases; leave-one-out recall@10."""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    n_users: int = 300
    n_items: int = 800
    dim: int = 16
    epochs: int = 25
    batch_size: int = 256
    lr: float = 0.02
    reg: float = 1e-4
    seed: int = 17
    k: int = 10


def simulate_purchases(cfg):
    rng = np.random.default_rng(cfg.seed)
    groups = 10
    item_group = rng.integers(0, groups, cfg.n_items)
    popularity = rng.pareto(1.5, cfg.n_items) + 0.1
    pairs, held_out = [], []
    for u in range(cfg.n_users):
        taste = rng.choice(groups, 2, replace=False)
        w = popularity * np.where(np.isin(item_group, taste), 1.0, 0.02)
        basket = rng.choice(cfg.n_items, size=25, replace=False, p=w / w.sum())
        basket = rng.permutation(basket)
        pairs += [(u, i) for i in basket[:-1]]
        held_out.append(basket[-1])
    return torch.tensor(np.array(pairs)), torch.tensor(np.array(held_out))


class BPRMF(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.user = nn.Embedding(cfg.n_users, cfg.dim)
        self.item = nn.Embedding(cfg.n_items, cfg.dim)
        self.item_bias = nn.Embedding(cfg.n_items, 1)
        nn.init.normal_(self.user.weight, std=0.1)
        nn.init.normal_(self.item.weight, std=0.1)
        nn.init.zeros_(self.item_bias.weight)

    def forward(self, u, i):
        return (self.user(u) * self.item(i)).sum(-1) + self.item_bias(i).squeeze(-1)

    def all_scores(self):
        return self.user.weight @ self.item.weight.T + self.item_bias.weight.T


def sample_negatives(users, seen, cfg):
    neg = torch.randint(0, cfg.n_users, users.shape)
    clash = seen[users, neg]
    while clash.any():
        neg[clash] = torch.randint(0, cfg.n_users, (int(clash.sum()),))
        clash = seen[users, neg]
    return neg


def recall_at_k(model, seen, held_out, k):
    model.eval()
    with torch.no_grad():
        scores = model.all_scores().masked_fill(seen, float("-inf"))
        top = scores.topk(k, dim=1).indices
    return (top == held_out[:, None]).any(1).float().mean().item()


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    pairs, held_out = simulate_purchases(cfg)
    seen = torch.zeros(cfg.n_users, cfg.n_items, dtype=torch.bool)
    seen[pairs[:, 0], pairs[:, 1]] = True
    model = BPRMF(cfg)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)

    popular = torch.bincount(pairs[:, 1], minlength=cfg.n_items).float().expand(cfg.n_users, -1)
    base = popular.masked_fill(seen, -1).topk(cfg.k, dim=1).indices
    print(f"{len(pairs)} purchases; popularity recall@{cfg.k} "
          f"{(base == held_out[:, None]).any(1).float().mean().item():.4f}")
    for epoch in range(1, cfg.epochs + 1):
        model.train()
        total = 0.0
        perm = torch.randperm(len(pairs))
        for s in range(0, len(pairs), cfg.batch_size):
            batch = pairs[perm[s:s + cfg.batch_size]]
            u, pos = batch[:, 0], batch[:, 1]
            neg = sample_negatives(u, seen, cfg)
            diff = model(u, pos) - model(u, neg)
            penalty = model.user(u).pow(2).sum() + model.item(pos).pow(2).sum() + model.item(neg).pow(2).sum()
            loss = -F.logsigmoid(diff).mean() + cfg.reg * penalty / len(u)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(u)
        if epoch % 5 == 0:
            print(f"epoch {epoch:3d}  loss {total / len(pairs):.4f}  "
                  f"recall@{cfg.k} {recall_at_k(model, seen, held_out, cfg.k):.4f}")


if __name__ == "__main__":
    main()
