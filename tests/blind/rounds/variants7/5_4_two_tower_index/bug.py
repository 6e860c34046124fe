"""Two-tower retrieval of recipes for users, in-batch softmax, exact index for evaluation."""
import torch
import torch.nn.functional as F
from torch import nn

N_USERS, N_ITEMS, N_CATS = 500, 400, 20


def interactions(seed):
    g = torch.Generator().manual_seed(seed)
    taste = torch.randn(N_USERS, 6, generator=g)
    recipe = torch.randn(N_ITEMS, 6, generator=g)
    centres = torch.randn(N_CATS, 6, generator=g)
    category = (recipe @ centres.T).argmax(1)
    affinity = 2.2 * taste @ recipe.T / 6 ** 0.5 + torch.randn(N_ITEMS, generator=g) * 0.3
    picks = torch.multinomial(affinity.softmax(1), 31, generator=g)
    history, held = picks[:, :30], picks[:, 30]
    pairs = torch.stack([torch.arange(N_USERS).repeat_interleave(30), history.reshape(-1)], 1)
    minutes = 20 + 6 * recipe[:, 0] + 3 * torch.randn(N_ITEMS, generator=g)
    return pairs, history, held, category, (minutes - minutes.mean()) / minutes.std()


class TwoTower(nn.Module):
    def __init__(self, category, minutes, dim=24):
        super().__init__()
        self.user = nn.Embedding(N_USERS, dim)
        self.item = nn.Embedding(N_ITEMS, dim)
        self.cat = nn.Embedding(N_CATS, 8)
        self.item_mlp = nn.Sequential(nn.Linear(dim + 9, 48), nn.ReLU(), nn.Linear(48, dim))
        self.user_mlp = nn.Sequential(nn.Linear(dim, 48), nn.ReLU(), nn.Linear(48, dim))
        self.register_buffer("category", category)
        self.register_buffer("minutes", minutes[:, None])

    def users(self, ids):
        return F.normalize(self.user_mlp(self.user(ids)), dim=1)

    def items(self, ids):
        parts = [self.item(ids), self.cat(self.category[ids]), self.minutes[ids]]
        return F.normalize(self.item_mlp(torch.cat(parts, 1)), dim=1)


class Retriever:
    def __init__(self, model):
        self.model = model
        self.index = None

    def build(self):
        self.index = self.model.items(torch.arange(N_ITEMS))

    @torch.no_grad()
    def search(self, users, seen, k):
        if self.index is None:
            self.build()
        scores = self.model.users(users) @ self.index.T
        scores.scatter_(1, seen, float("-inf"))
        return scores.topk(k, dim=1).indices


def recall(retriever, history, held, k=10):
    retriever.model.eval()
    top = retriever.search(torch.arange(N_USERS), history, k)
    return (top == held[:, None]).any(1).float().mean().item()


def main():
    torch.manual_seed(0)
    pairs, history, held, category, minutes = interactions(seed=13)
    frequency = torch.bincount(pairs[:, 1], minlength=N_ITEMS).float().clamp(min=1)
    log_q = (frequency / frequency.sum()).log()
    model = TwoTower(category, minutes)
    retriever = Retriever(model)
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    print(f"untrained recall {recall(retriever, history, held):.4f}")
    for epoch in range(8):
        model.train()
        total, batches = 0.0, torch.randperm(len(pairs)).split(200)
        for idx in batches:
            u, i = pairs[idx].T
            logits = model.users(u) @ model.items(i).T / 0.15 - log_q[i]
            same = (i[:, None] == i[None, :]) & ~torch.eye(len(i), dtype=torch.bool)
            loss = F.cross_entropy(logits.masked_fill(same, -1e4), torch.arange(len(i)))
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(batches):.3f} recall {recall(retriever, history, held):.4f}")
    print(f"recall_at_10={recall(retriever, history, held):.4f}")


if __name__ == "__main__":
    main()
