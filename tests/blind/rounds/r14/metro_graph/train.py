"""District of a station from its own counters and those of its neighbours (two GCN layers)."""
import csv
import sys
from pathlib import Path

import torch
from torch import nn


def read_stations(path):
    with open(path, newline="") as f:
        rows = list(csv.DictReader(f))
    x = torch.tensor([[float(r[f"f{k}"]) for k in range(6)] for r in rows])
    y = torch.tensor([int(r["district"]) for r in rows])
    index = {r["station"]: i for i, r in enumerate(rows)}
    return x, y, index


def read_links(path, index):
    """Links to stations outside our network are left out."""
    with open(path, newline="") as f:
        pairs = [(index[r["a"]], index[r["b"]]) for r in csv.DictReader(f) if r["a"] in index and r["b"] in index]
    return torch.tensor(pairs).T


def normalised_adjacency(links, n):
    adj = torch.eye(n)
    adj[links[0], links[1]] = 1.0
    adj[links[1], links[0]] = 1.0
    d = adj.sum(1).rsqrt()
    return (d[:, None] * adj * d[None, :]).to_sparse()


class GCN(nn.Module):
    def __init__(self, n_in, hidden, n_out):
        super().__init__()
        self.lin1 = nn.Linear(n_in, hidden)
        self.lin2 = nn.Linear(hidden, n_out)
        self.drop = nn.Dropout(0.4)

    def forward(self, adj, x):
        h = torch.relu(torch.sparse.mm(adj, self.lin1(x)))
        return torch.sparse.mm(adj, self.lin2(self.drop(h)))


if __name__ == "__main__":
    home = Path(sys.argv[1])
    torch.manual_seed(10)
    x, y, index = read_stations(home / "stations.csv")
    adj = normalised_adjacency(read_links(home / "links.csv", index), len(x))
    order = torch.randperm(len(x))
    known, hidden = order[:300], order[300:]
    model = GCN(6, 32, int(y.max()) + 1)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-3)
    for epoch in range(1, 121):
        model.train()
        loss = nn.functional.cross_entropy(model(adj, x)[known], y[known])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if epoch % 40 == 0:
            print(f"epoch {epoch} loss {loss.item():.3f}")
    model.eval()
    with torch.no_grad():
        pred = model(adj, x).argmax(1)
    print(f"accuracy on hidden stations {(pred[hidden] == y[hidden]).float().mean():.3f}")
