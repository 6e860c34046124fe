"""BPR matrix factorisation for song recommendation."""
import torch
from torch import nn
import torch.nn.functional as F


class Listening:
    def __init__(self, n_users=150, n_items=500, dim=4, per_user=24, seed=23):
        g = torch.Generator().manual_seed(seed)
        self.n_users, self.n_items = n_users, n_items
        taste = torch.randn(n_users, dim, generator=g)
        song = torch.randn(n_items, dim, generator=g)
        prob = torch.softmax(2.0 * taste @ song.t(), dim=1)
        liked = torch.multinomial(prob, per_user, generator=g)
        self.test = liked[:, :4]
        self.train = torch.stack(
            [torch.arange(n_users).repeat_interleave(per_user - 4), liked[:, 4:].reshape(-1)], 1)


class BPR(nn.Module):
    def __init__(self, n_users, n_items, dim=12):
        super().__init__()
        self.user = nn.Embedding(n_users, dim)
        self.item = nn.Embedding(n_items, dim)
        self.bias = nn.Embedding(n_items, 1)
        nn.init.normal_(self.user.weight, std=0.1)
        nn.init.normal_(self.item.weight, std=0.1)
        nn.init.zeros_(self.bias.weight)

    def score(self, u, i):
        return (self.user(u) * self.item(i)).sum(1) + self.bias(i).squeeze(1)

    def all_scores(self):
        return self.user.weight @ self.item.weight.t() + self.bias.weight.t()


def hit_rate(model, data, k=20):
    with torch.no_grad():
        s = model.all_scores()
        s[data.train[:, 0], data.train[:, 1]] = -1e9
        top = s.topk(k, dim=1).indices
    found = (data.test[:, :, None] == top[:, None, :]).any(2)
    return found.float().mean().item()


def main():
    torch.manual_seed(0)
    data = Listening()
    model = BPR(data.n_users, data.n_items)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-4)
    for epoch in range(20):
        tot = 0.0
        for rows in torch.randperm(len(data.train)).split(150):
            u, pos = data.train[rows].t()
            neg = torch.randint(0, data.n_users, (len(rows),))
            loss = -F.logsigmoid(model.score(u, pos) - model.score(u, neg)).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item() * len(rows)
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1} bpr {tot / len(data.train):.3f} hit@20 {hit_rate(model, data):.3f}")


if __name__ == "__main__":
    main()
