"""Graph classifier: does a small molecule contain more polar-polar bonds than usual?"""
import random
import torch
import torch.nn as nn
from torch.utils.data import DataLoader

N_TYPES = 4


def random_molecule(rng):
    n = rng.randint(6, 12)
    types = [rng.randrange(N_TYPES) for _ in range(n)]
    bonds = [(i, rng.randrange(i)) for i in range(1, n)]
    for _ in range(3):
        a, b = rng.sample(range(n), 2)
        bonds.append((a, b))
    polar = sum(types[a] == types[b] for a, b in bonds)
    edges = bonds + [(b, a) for a, b in bonds]
    return torch.tensor(types), torch.tensor(edges).t(), float(polar >= 3)


def collate(mols):
    xs, edges, graph, labels = [], [], [], []
    for g, (types, edge, label) in enumerate(mols):
        xs.append(types)
        edges.append(edge)
        graph.append(torch.full((len(types),), g))
        labels.append(label)
    return torch.cat(xs), torch.cat(edges, dim=1), torch.cat(graph), torch.tensor(labels)


class MPNN(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.embed = nn.Embedding(N_TYPES, dim)
        self.msg = nn.Sequential(nn.Linear(2 * dim, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.upd = nn.Linear(2 * dim, dim)
        self.out = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, types, edge, graph, n_graphs):
        h = self.embed(types)
        src, dst = edge
        m = self.msg(torch.cat([h[src], h[dst]], dim=1))
        agg = torch.zeros_like(h).index_add(0, dst, m)
        h = h + torch.relu(self.upd(torch.cat([h, agg], dim=1)))
        pooled = torch.zeros(n_graphs, h.size(1)).index_add(0, graph, h)
        return self.out(pooled).squeeze(1)


def main():
    torch.manual_seed(19)
    rng = random.Random(19)
    mols = [random_molecule(rng) for _ in range(1600)]
    train = DataLoader(mols[:1200], batch_size=40, shuffle=True, collate_fn=collate)
    test = DataLoader(mols[1200:], batch_size=40, collate_fn=collate)
    net = MPNN()
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    bce = nn.BCEWithLogitsLoss()
    for epoch in range(10):
        for types, edge, graph, y in train:
            opt.zero_grad()
            loss = bce(net(types, edge, graph, len(y)), y)
            loss.backward()
            opt.step()
        hits = 0
        with torch.no_grad():
            for types, edge, graph, y in test:
                hits += ((net(types, edge, graph, len(y)) > 0).float() == y).sum().item()
        if epoch % 3 == 0:
            print(f"epoch {epoch} loss {loss.item():.3f} test accuracy {hits / 400:.3f}")


if __name__ == "__main__":
    main()
