"""BPR matrix factorisation on implicit feedback (synthetic shop log)."""
import torch
import torch.nn as nn
import torch.nn.functional as F

N_USERS, N_ITEMS, DIM = 400, 300, 16
EPOCHS, BATCH, LR, REG = 18, 512, 5e-3, 1e-3
TOPK = 10
g = torch.Generator().manual_seed(17)
torch.manual_seed(17)

# ------------------------------------------------------------------ log
u_lat = torch.randn(N_USERS, 4, generator=g)
i_lat = torch.randn(N_ITEMS, 4, generator=g)
affinity = 1.6 * u_lat @ i_lat.t() + 0.5 * torch.randn(N_ITEMS, generator=g)
gumbel = -torch.log(-torch.log(torch.rand(N_USERS, N_ITEMS, generator=g)))
order = (affinity + gumbel).argsort(dim=1, descending=True)[:, :30]
order = order.gather(1, torch.rand(order.shape, generator=g).argsort(1))
train_items, val_items, test_items = order[:, :20], order[:, 20:25], order[:, 25:]

seen_train = torch.zeros(N_USERS, N_ITEMS, dtype=torch.bool)
seen_train.scatter_(1, train_items, True)
seen_test = seen_train.clone().scatter_(1, val_items, True)
pairs = seen_train.nonzero()


class MF(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(N_USERS, DIM)
        self.item = nn.Embedding(N_ITEMS, DIM)
        self.bias = nn.Parameter(torch.zeros(N_ITEMS))
        nn.init.normal_(self.user.weight, std=0.1)
        nn.init.normal_(self.item.weight, std=0.1)

    def forward(self, u, i):
        return (self.user(u) * self.item(i)).sum(1) + self.bias[i]

    def all_scores(self):
        return self.user.weight @ self.item.weight.t() + self.bias


def sample_negatives(users):
    neg = torch.randint(0, N_ITEMS, (len(users),))
    bad = seen_train[users, neg]
    while bad.any():
        neg[bad] = torch.randint(0, N_ITEMS, (int(bad.sum()),))
        bad = seen_train[users, neg]
    return neg


@torch.no_grad()
def ranking_metrics(model, seen, relevant):
    model.eval()
    scores = model.all_scores()
    scores = scores.masked_fill(seen, -1e9)
    top = scores.topk(TOPK, dim=1).indices
    hits = (top[:, :, None] == relevant[:, None, :]).any(2).float()
    recall = hits.sum(1) / relevant.shape[1]
    discount = 1 / torch.log2(torch.arange(TOPK) + 2.0)
    ideal = discount[:relevant.shape[1]].sum()
    return recall.mean().item(), ((hits * discount).sum(1) / ideal).mean().item()


model = MF()
opt = torch.optim.Adam(model.parameters(), lr=LR)
best, best_state = -1.0, None
for epoch in range(EPOCHS):
    model.train()
    total = 0.0
    for idx in torch.randperm(len(pairs)).split(BATCH):
        u, pos = pairs[idx, 0], pairs[idx, 1]
        neg = sample_negatives(u)
        diff = model(u, pos) - model(u, neg)
        reg = model.user(u).pow(2).sum(1) + model.item(pos).pow(2).sum(1) + model.item(neg).pow(2).sum(1)
        loss = (-F.logsigmoid(diff) + REG * reg).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(idx)
    recall, ndcg = ranking_metrics(model, seen_train, val_items)
    if ndcg > best:
        best, best_state = ndcg, {k: v.clone() for k, v in model.state_dict().items()}
    print(f"epoch {epoch:2d} bpr {total / len(pairs):.4f} val recall@{TOPK} {recall:.4f} ndcg {ndcg:.4f}")

model.load_state_dict(best_state)
recall, ndcg = ranking_metrics(model, seen_test, test_items)
print(f"test recall@{TOPK} {recall:.4f} ndcg@{TOPK} {ndcg:.4f}")
