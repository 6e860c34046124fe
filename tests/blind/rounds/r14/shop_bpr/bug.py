"""BPR matrix factorisation for a web shop; leave-one-out hit rate."""
import numpy as np
import torch
from torch import nn


class Interactions:
    def __init__(self, n_users=300, n_items=900, dim=4, per_user=25, seed=9):
        rng = np.random.default_rng(seed)
        self.n_users, self.n_items = n_users, n_items
        u = rng.normal(size=(n_users, dim))
        v = rng.normal(size=(n_items, dim))
        util = u @ v.T * 1.6 + rng.gumbel(size=(n_users, n_items))
        chosen = np.argsort(-util, axis=1)[:, :per_user]
        chosen = np.stack([rng.permutation(row) for row in chosen])
        self.held_out = chosen[:, 0]
        self.train = [(user, item) for user in range(n_users) for item in chosen[user, 1:]]
        self.seen = [set(chosen[user, 1:]) for user in range(n_users)]


class BPR(nn.Module):
    def __init__(self, n_users, n_items, dim):
        super().__init__()
        self.user = nn.Embedding(n_users, dim)
        self.item = nn.Embedding(n_items, dim)
        self.bias = nn.Embedding(n_items, 1)
        nn.init.normal_(self.user.weight, std=0.1)
        nn.init.normal_(self.item.weight, std=0.1)
        nn.init.zeros_(self.bias.weight)

    def score(self, u, i):
        return (self.user(u) * self.item(i)).sum(-1) + self.bias(i).squeeze(-1)

    def forward(self, u, pos, neg):
        return -nn.functional.logsigmoid(self.score(u, pos) - self.score(u, neg)).mean()


def hit_rate(model, data, k=20):
    model.eval()
    hits = 0
    with torch.no_grad():
        all_scores = model.user.weight @ model.item.weight.T + model.bias.weight.T
    for user in range(data.n_users):
        s = all_scores[user].clone()
        s[list(data.seen[user])] = -1e9
        hits += int(data.held_out[user] in s.topk(k).indices.tolist())
    return hits / data.n_users


def main():
    torch.manual_seed(9)
    data = Interactions()
    pairs = torch.tensor(np.array(data.train))
    n_items, n_users = data.n_items, data.n_users
    model = BPR(n_users, n_items, 8)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-5)
    for epoch in range(40):
        model.train()
        total = 0.0
        for chunk in torch.randperm(len(pairs)).split(512):
            users, pos = pairs[chunk].T
            neg = torch.randint(0, n_users, (len(chunk),))
            loss = model(users, pos, neg)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(chunk)
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1:2d} bpr {total / len(pairs):.4f}")
    print(f"HR@20 {hit_rate(model, data):.3f}")


if __name__ == "__main__":
    main()
