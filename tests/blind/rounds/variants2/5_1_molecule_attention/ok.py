import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(23)
NODES, KINDS = 10, 5


def graphs(n):
    """Every node asks: what is the value of my neighbour with the largest key?  The graph label averages this."""
    adj = torch.rand(n, NODES, NODES) < torch.rand(n, 1, NODES) * 0.7
    adj = adj | torch.eye(NODES, dtype=torch.bool)
    key, value = torch.rand(n, NODES), torch.randn(n, NODES)
    best = key[:, None, :].masked_fill(~adj, -1.0).argmax(-1)
    target = value.gather(1, best)
    return torch.stack([key, value], -1), adj, target


class NeighbourAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.value = nn.Linear(dim, dim)
        self.receive = nn.Linear(dim, dim)
        self.send = nn.Linear(dim, dim)
        self.rate = nn.Linear(dim, 1)

    def forward(self, h, adj):
        pair = torch.tanh(self.receive(h)[:, :, None] + self.send(h)[:, None, :])
        score = 8.0 * self.rate(pair).squeeze(-1)
        score = score.masked_fill(~adj, -1e9)
        share = score.softmax(dim=-1)
        return share @ self.value(h)


class Net(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.lift = nn.Linear(2, dim)
        self.att = NeighbourAttention(dim)
        self.out = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, x, adj):
        h = self.lift(x)
        return self.out(self.att(h, adj)).squeeze(-1)


x, adj, y = graphs(1500)
train, val = slice(0, 1200), slice(1200, 1500)
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
for epoch in range(10):
    net.train()
    for idx in torch.randperm(1200).split(32):
        loss = F.mse_loss(net(x[train][idx], adj[train][idx]), y[train][idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        error = F.mse_loss(net(x[val], adj[val]), y[val]) / y[val].var()
    print(f"epoch {epoch} train {loss.item():.3f} val unexplained {error.item():.3f}")
