"""Matrix factorisation with BPR on implicit feedback, leave-one-out evaluation."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SEED, N_USERS, N_ITEMS, DIM = 3, 500, 300, 24
EPOCHS, BATCH, LR, L2 = 25, 256, 0.01, 1e-5

torch.manual_seed(SEED)
rng = np.random.default_rng(SEED)


def simulate_log():
    """Every user consumes 20 distinct items; item ids are ordered by popularity."""
    taste = rng.normal(size=(N_USERS, 6))
    genre = rng.normal(size=(N_ITEMS, 6))
    popularity = 2.5 / np.sqrt(1 + np.arange(N_ITEMS))
    utility = taste @ genre.T * 0.9 + 4.0 * popularity + rng.gumbel(size=(N_USERS, N_ITEMS)) * 0.5
    ranked = np.argsort(-utility, axis=1)[:, :20]
    train, test = [], np.zeros(N_USERS, dtype=np.int64)
    for user in range(N_USERS):
        items = rng.permutation(ranked[user])
        test[user] = items[0]
        train += [(user, item) for item in items[1:]]
    return np.array(train), test


class BPR(nn.Module):
    def __init__(self, n_users, n_items, dim):
        super().__init__()
        self.user = nn.Embedding(n_users, dim)
        self.item = nn.Embedding(n_items, dim, padding_idx=0)
        self.bias = nn.Embedding(n_items, 1, padding_idx=0)
        nn.init.normal_(self.user.weight, std=0.05)
        with torch.no_grad():
            self.item.weight.mul_(0.05)
            self.bias.weight.zero_()

    def forward(self, users, items):
        return (self.user(users) * self.item(items)).sum(-1) + self.bias(items).squeeze(-1)

    def all_scores(self):
        return self.user.weight @ self.item.weight.T + self.bias.weight.squeeze(-1)


train, test_item = simulate_log()
seen = torch.zeros(N_USERS, N_ITEMS, dtype=torch.bool)
seen[train[:, 0], train[:, 1]] = True
pairs = torch.from_numpy(train)
test_item = torch.from_numpy(test_item)

model = BPR(N_USERS, N_ITEMS, DIM)
optimizer = torch.optim.Adam(model.parameters(), lr=LR, weight_decay=L2)


@torch.no_grad()
def evaluate(k=10):
    model.eval()
    scores = model.all_scores().masked_fill(seen, float("-inf"))
    top = scores.topk(k, dim=1).indices
    hit = (top == test_item[:, None]).any(1).float()
    head = hit[test_item == 0]
    return hit.mean().item(), head.mean().item(), len(head)


for epoch in range(EPOCHS):
    model.train()
    order = torch.randperm(len(pairs))
    total = 0.0
    for idx in order.split(BATCH):
        users, pos = pairs[idx].unbind(1)
        neg = torch.randint(N_ITEMS, pos.shape)
        clash = seen[users, neg]
        while clash.any():
            neg[clash] = torch.randint(N_ITEMS, (int(clash.sum()),))
            clash = seen[users, neg]
        loss = -F.logsigmoid(model(users, pos) - model(users, neg)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(idx)
    if epoch % 5 == 4:
        hr, head_hr, n = evaluate()
        print(f"epoch {epoch:2d} loss {total / len(pairs):.4f} HR@10 {hr:.3f} | best seller: HR@10 {head_hr:.3f} ({n} users)")
