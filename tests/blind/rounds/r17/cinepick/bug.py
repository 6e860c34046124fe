import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

N_USERS, N_ITEMS, DIM = 500, 250, 32


def plays(seed):
    """Who watched what: genres, tastes and popularity."""
    rng = np.random.default_rng(seed)
    genre = rng.dirichlet(np.full(8, 0.15), N_ITEMS)
    taste = rng.dirichlet(np.full(8, 0.2), N_USERS)
    pop = rng.normal(0, 0.6, N_ITEMS)
    score = 14 * taste @ genre.T + pop + rng.gumbel(0, 1, (N_USERS, N_ITEMS))
    return np.stack([np.argsort(-s)[:16] for s in score]), rng


watched, rng = plays(40)
for row in watched:
    rng.shuffle(row)
train_pos, valid_pos, test_pos = watched[:, :8], watched[:, 8:12], watched[:, 12:]
seen = torch.zeros(N_USERS, N_ITEMS, dtype=torch.bool)
seen[torch.arange(N_USERS)[:, None], torch.from_numpy(train_pos)] = True


class BPR(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(N_USERS, DIM)
        self.item = nn.Embedding(N_ITEMS, DIM)
        self.bias = nn.Embedding(N_ITEMS, 1)
        nn.init.normal_(self.user.weight, std=0.05)
        nn.init.normal_(self.item.weight, std=0.05)
        nn.init.zeros_(self.bias.weight)

    def forward(self, u, i):
        return (self.user(u) * self.item(i)).sum(-1) + self.bias(i).squeeze(-1)

    def full(self):
        return self.user.weight @ self.item.weight.T + self.bias.weight.T


@torch.no_grad()
def recall_at(model, held, known, k=10):
    s = model.full()
    s.masked_fill(known, -float("inf"))
    top = s.topk(k, dim=1).indices
    hit = (torch.from_numpy(held)[:, :, None] == top[:, None, :]).any(-1)
    return hit.float().mean().item()


torch.manual_seed(0)
users = torch.arange(N_USERS).repeat_interleave(train_pos.shape[1])
items = torch.from_numpy(train_pos.reshape(-1).copy())
model = BPR()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
best, best_epoch, best_state = 0.0, -1, None
for epoch in range(21):
    total = 0.0
    for ix in torch.randperm(len(users)).split(256):
        u, pos = users[ix], items[ix]
        neg = torch.randint(0, N_ITEMS, (len(ix),))
        keep = ~seen[u, neg]
        loss = -F.logsigmoid(model(u, pos) - model(u, neg))[keep].mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(ix)
    valid = recall_at(model, valid_pos, seen)
    if valid > best:
        best, best_epoch = valid, epoch
        best_state = copy.deepcopy(model.state_dict())
    if epoch % 3 == 2:
        print(f"epoch {epoch + 1} bpr {total / len(users):.4f} valid recall@10 {valid:.4f}")

model.load_state_dict(best_state)
known = seen.clone()
known[torch.arange(N_USERS)[:, None], torch.from_numpy(valid_pos)] = True
print(f"best epoch {best_epoch + 1} (valid {best:.4f})")
print(f"test recall@10 {recall_at(model, test_pos, known):.4f}")
