"""BPR matrix factorisation on implicit clicks (synthetic catalogue with latent genres)."""
import numpy as np
import torch
from torch import nn

N_USERS, N_ITEMS, DIM, GENRES = 250, 900, 16, 12


def make_clicks(rng):
    taste = rng.dirichlet(np.full(GENRES, 0.25), N_USERS)
    genre = rng.integers(0, GENRES, N_ITEMS)
    appeal = rng.gamma(1.0, 1.0, N_ITEMS) + 0.1
    train, held = [], []
    for u in range(N_USERS):
        p = taste[u, genre] * appeal + 1e-6
        items = rng.choice(N_ITEMS, 45, replace=False, p=p / p.sum())
        train += [(u, i) for i in items[:35]]
        held.append(items[35:])
    return np.array(train), held


class MF(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(N_USERS, DIM)
        self.item = nn.Embedding(N_ITEMS, DIM)
        self.bias = nn.Embedding(N_ITEMS, 1)
        nn.init.normal_(self.user.weight, std=0.1)
        nn.init.normal_(self.item.weight, std=0.1)
        nn.init.zeros_(self.bias.weight)

    def score(self, u, i):
        return (self.user(u) * self.item(i)).sum(-1) + self.bias(i).squeeze(-1)

    def all_scores(self):
        return self.user.weight @ self.item.weight.T + self.bias.weight.squeeze(-1)


def recall_at(model, seen, held, k=20):
    with torch.no_grad():
        s = model.all_scores().clone()
    s[seen] = -1e9
    top = s.topk(k, dim=1).indices.numpy()
    return float(np.mean([len(set(top[u]) & set(held[u])) / len(held[u]) for u in range(N_USERS)]))


def draw_negatives(users, seen):
    neg = torch.randint(0, N_USERS, users.shape)
    clash = seen[users, neg]
    while clash.any():
        neg[clash] = torch.randint(0, N_USERS, (int(clash.sum()),))
        clash = seen[users, neg]
    return neg


def main():
    torch.manual_seed(3)
    train, held = make_clicks(np.random.default_rng(3))
    train = torch.from_numpy(train)
    seen = torch.zeros(N_USERS, N_ITEMS, dtype=torch.bool)
    seen[train[:, 0], train[:, 1]] = True
    model = MF()
    opt = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-5)
    for epoch in range(40):
        perm = torch.randperm(len(train))
        total = 0.0
        for idx in perm.split(256):
            u, pos = train[idx].T
            neg = draw_negatives(u, seen)
            margin = model.score(u, pos) - model.score(u, neg)
            loss = -nn.functional.logsigmoid(margin).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        if epoch % 8 == 7:
            print(f"{epoch:3d} bpr {total / len(train):.4f} recall@20 {recall_at(model, seen, held):.4f}")
    print("final recall@20", recall_at(model, seen, held))


main()
