# Semi-supervised topics of papers: citation graph, bag of words, 2-layer graph convolution.
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(31)
N, C, V = 700, 6, 300

topic = torch.randint(C, (N,))
p = torch.where(topic[:, None] == topic[None], 0.026, 0.0022)
upper = torch.triu(torch.rand(N, N) < p, 1)
src, dst = upper.nonzero(as_tuple=True)
edge_index = torch.stack([torch.cat([src, dst]), torch.cat([dst, src])])

word_topic = torch.randint(C, (V,))
p_word = torch.full((C, V), 0.025)
p_word[word_topic, torch.arange(V)] = 0.06
words = (torch.rand(N, V) < p_word[topic]).float()
words = words / words.sum(1, keepdim=True).clamp(min=1)

perm = torch.randperm(N)
train_idx = torch.cat([(topic[perm] == c).nonzero().flatten()[:20] for c in range(C)])
rest = torch.ones(N, dtype=torch.bool)
rest[train_idx] = False
rest = rest.nonzero().flatten()
train_idx, test_idx = perm[train_idx], perm[rest]


def norm_adj(edges, n):
    a = torch.eye(n)
    a[edges[0], edges[1]] = 1.0
    d = a.sum(1).rsqrt()
    return (d[:, None] * a * d[None])


class GraphConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.lin = nn.Linear(i, o, bias=False)
        self.bias = nn.Parameter(torch.zeros(o))

    def forward(self, adj, x):
        return adj @ self.lin(x) + self.bias


class GCN(nn.Module):
    def __init__(self, i, h, o, p=0.6):
        super().__init__()
        self.c1, self.c2, self.p = GraphConv(i, h), GraphConv(h, o), p

    def forward(self, adj, x):
        x = F.dropout(x, self.p)
        x = F.relu(self.c1(adj, x))
        x = F.dropout(x, self.p)
        return self.c2(adj, x)


adj = norm_adj(edge_index, N)
model = GCN(V, 32, C)
opt = torch.optim.Adam([{"params": model.c1.parameters(), "weight_decay": 5e-4},
                        {"params": model.c2.parameters()}], lr=0.02)
for epoch in range(1, 151):
    model.train()
    loss = F.cross_entropy(model(adj, words)[train_idx], topic[train_idx])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if epoch % 30 == 0:
        print(f"epoch {epoch:3d}  loss {loss.item():.4f}")
model.eval()
with torch.no_grad():
    pred = model(adj, words).argmax(1)
print(f"edges {edge_index.size(1)}, test accuracy {(pred[test_idx] == topic[test_idx]).float().mean():.4f}")
