"""Batches of small graphs: nodes of all graphs in one long tensor, messages by index_add, a mean per graph, regression
and classes."""

import torch
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(9)


class Graph:
    def __init__(self, x, edges, y):
        self.x, self.edges, self.y = x, edges, y


def make_graph():
    n = int(torch.randint(5, 10, (1,)))
    x = torch.randn(n, 4)
    dense = torch.rand(n, n) < 0.4
    edges = dense.nonzero().t()
    return Graph(x, edges, (x[:, 0].mean() + 0.5 * x[:, 1].max() > 0.4).long())


def collate(graphs):
    shift, xs, edges, owner = 0, [], [], []
    for i, g in enumerate(graphs):
        xs.append(g.x)
        edges.append(g.edges + shift)
        owner.append(torch.full((len(g.x),), i))
        shift += len(g.x)
    return torch.cat(xs), torch.cat(edges, dim=1), torch.cat(owner), torch.stack([g.y for g in graphs])


def scatter_mean(values, index, size):
    total = torch.zeros(size, values.size(1)).index_add_(0, index, values)
    count = torch.zeros(size).index_add_(0, index, torch.ones(len(index)))
    return total / count.clamp(min=1).unsqueeze(1)


class SageLayer(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.own = nn.Linear(inside, outside)
        self.others = nn.Linear(inside, outside, bias=False)
        self.norm = nn.BatchNorm1d(outside)

    def forward(self, x, edges):
        source, target = edges
        return self.norm(self.own(x) + self.others(scatter_mean(x[source], target, len(x)))).relu()


class GraphNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([SageLayer(4, 32), SageLayer(32, 32)])
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(64, 2)

    def forward(self, x, edges, owner):
        for layer in self.layers:
            x = layer(x, edges)
        size = int(owner.max()) + 1
        largest = torch.full((size, x.size(1)), -1e9).index_reduce(0, owner, x, "amax")
        return self.head(self.drop(torch.cat([scatter_mean(x, owner, size), largest], dim=1)))


graphs = [make_graph() for _ in range(260)]
train_loader = DataLoader(graphs[:200], batch_size=20, shuffle=True, collate_fn=collate)
test_loader = DataLoader(graphs[200:], batch_size=20, collate_fn=collate)
model = GraphNet()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss()


def train():
    model.train()
    for x, edges, owner, y in train_loader:
        out = model(x, edges, owner)
        loss = criterion(out, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


@torch.no_grad()
def test(loader):
    model.eval()
    correct = 0
    for x, edges, owner, y in loader:
        correct += int((model(x, edges, owner).argmax(dim=1) == y).sum())
    return correct / len(loader.dataset)


for epoch in range(1, 6):
    train()
    print(f"Epoch: {epoch:03d}, Train Acc: {test(train_loader):.4f}, Test Acc: {test(test_loader):.4f}")
