import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(17)
N, GROUPS = 160, 4

group = torch.arange(N) % GROUPS
# groups are linked in a circle: most edges go from group g to group g + 1
prob = torch.full((N, N), 0.01)
prob[(group[None, :] - group[:, None]) % GROUPS == 1] = 0.35
edges = torch.bernoulli(prob).nonzero()
edges = edges[torch.randperm(len(edges))]
cut = int(0.85 * len(edges))
train_e, valid_e = edges[:cut], edges[cut:]
features = F.one_hot(group, GROUPS).float() + 0.8 * torch.randn(N, GROUPS)

adj = torch.zeros(N, N)
adj[train_e[:, 0], train_e[:, 1]] = 1
out_norm = adj / adj.sum(1, keepdim=True).clamp(min=1)
in_norm = adj.t() / adj.t().sum(1, keepdim=True).clamp(min=1)


class Encoder(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.first = nn.Linear(3 * GROUPS, 32)
        self.second = nn.Linear(96, d)

    def forward(self, x):
        h = F.relu(self.first(torch.cat([x, out_norm @ x, in_norm @ x], -1)))
        return self.second(torch.cat([h, out_norm @ h, in_norm @ h], -1))


class Bilinear(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.rel = nn.Parameter(torch.eye(d))
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, z, pairs):
        return ((z[pairs[:, 0]] @ self.rel) * z[pairs[:, 1]]).sum(-1) + self.bias


def with_negatives(pos):
    neg = torch.randint(0, N, pos.shape)
    return torch.cat([pos, neg]), torch.cat([torch.ones(len(pos)), torch.zeros(len(pos))])


encoder, scorer = Encoder(), Bilinear()
optimizer = torch.optim.Adam([*encoder.parameters(), *scorer.parameters()], lr=5e-3)
valid_pairs, valid_y = with_negatives(valid_e)
for step in range(1, 201):
    pairs, y = with_negatives(train_e)
    loss = F.binary_cross_entropy_with_logits(scorer(encoder(features), pairs), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        with torch.no_grad():
            logit = scorer(encoder(features), valid_pairs)
            held = F.binary_cross_entropy_with_logits(logit, valid_y).item()
            acc = ((logit > 0).float() == valid_y).float().mean().item()
        print(f"step {step} loss {loss.item():.4f} validation loss {held:.4f} accuracy {acc:.3f}")
