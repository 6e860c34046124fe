from functools import lru_cache

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

rng = np.random.default_rng(35)
torch.manual_seed(35)
USERS, ITEMS, TASTES, K = 250, 300, 8, 3


def histories():
    """Every user likes the items of two tastes; one liked item is held out."""
    taste = np.arange(ITEMS) % TASTES
    train, held = {}, {}
    for u in range(USERS):
        mine = rng.choice(TASTES, 2, replace=False)
        pool = np.flatnonzero(np.isin(taste, mine))
        liked = rng.choice(pool, 13, replace=False)
        train[u], held[u] = liked[1:], int(liked[0])
    return train, held


train, held = histories()


@lru_cache(maxsize=None)
def sample_negatives(user):
    picked = []
    while len(picked) < K:
        j = int(rng.integers(ITEMS))
        if j not in train[user]:
            picked.append(j)
    return torch.tensor(picked)


class Triples(Dataset):
    def __init__(self):
        self.pairs = [(u, int(i)) for u, items in train.items() for i in items]

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, k):
        u, i = self.pairs[k]
        return u, i, sample_negatives(u)


users, items = nn.Embedding(USERS, 24), nn.Embedding(ITEMS, 24)
for emb in (users, items):
    nn.init.normal_(emb.weight, std=0.1)
params = [*users.parameters(), *items.parameters()]
opt = torch.optim.Adam(params, lr=0.02)
loader = DataLoader(Triples(), batch_size=150, shuffle=True)


@torch.no_grad()
def hit_rate(k=20):
    score = users.weight @ items.weight.T
    for u, seen in train.items():
        score[u, torch.as_tensor(seen)] = -torch.inf
    top = score.topk(k, dim=1).indices
    truth = torch.tensor([held[u] for u in range(USERS)])
    return (top == truth[:, None]).any(1).float().mean().item()


for epoch in range(10):
    total = 0.0
    for u, pos, neg in loader:
        w = users(u).unsqueeze(1)
        margin = (w * items(pos).unsqueeze(1)).sum(-1) - (w * items(neg)).sum(-1)
        loss = -F.logsigmoid(margin).mean() + 2e-3 * (w.square().sum(-1).mean() + items(pos).square().sum(-1).mean())
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() / len(loader)
    print(f"epoch {epoch}  loss {total:.4f}  hit rate at 20 of {ITEMS}: {hit_rate():.3f}")
