import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(2)
N, GROUPS = 240, 6

member = torch.arange(N) % GROUPS
same = member[:, None] == member[None, :]
prob = torch.where(same, torch.tensor(0.30), torch.tensor(0.02))
upper = torch.triu((torch.rand(N, N) < prob), diagonal=1)
pairs = upper.nonzero()

edges = torch.cat([pairs, pairs.flip(1)])
edges = edges[torch.randperm(len(edges))]
cut = int(0.85 * len(edges))
train_edges, valid_edges = edges[:cut], edges[cut:]
linked = upper | upper.T
known = torch.zeros_like(linked)
known[train_edges[:, 0], train_edges[:, 1]] = True
known |= known.T.clone()


def non_edges(k, table):
    u, v = torch.randint(N, (2, 3 * k))
    ok = ~table[u, v] & (u != v)
    return torch.stack([u[ok], v[ok]], 1)[:k]


def propagation(edge_list):
    a = torch.eye(N)
    a[edge_list[:, 0], edge_list[:, 1]] = 1.0
    d = a.sum(1).rsqrt()
    return d[:, None] * a * d[None, :]


class Encoder(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.table = nn.Parameter(0.3 * torch.randn(N, 32))
        self.first = nn.Linear(32, 48)
        self.second = nn.Linear(48, dim)

    def forward(self, prop):
        h = F.relu(prop @ self.first(self.table))
        return prop @ self.second(h)


def logits(z, e):
    return (z[e[:, 0]] * z[e[:, 1]]).sum(1)


def auc(pos, neg):
    return (pos[:, None] > neg[None, :]).float().mean().item()


prop = propagation(train_edges)
valid_neg = non_edges(len(valid_edges), linked)
enc = Encoder()
opt = torch.optim.Adam(enc.parameters(), lr=5e-3, weight_decay=5e-4)

for step in range(1, 201):
    batch = train_edges[torch.randint(len(train_edges), (1024,))]
    z = enc(prop)
    pos, neg = logits(z, batch), logits(z, non_edges(1024, known))
    loss = F.softplus(-pos).mean() + F.softplus(neg).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 25 == 0:
        with torch.no_grad():
            z = enc(prop)
            score = auc(logits(z, valid_edges), logits(z, valid_neg))
        print(f"step {step:3d}  loss {loss.item():.3f}  valid auc {score:.4f}")
