"""Semi-supervised topic prediction on a citation graph (GCN)."""
import csv
import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def read_edges(path):
    with open(path, newline="") as fh:
        rows = csv.DictReader(fh)
        return torch.tensor([[int(r["citing"]), int(r["cited"])] for r in rows]).T


def normalized_adjacency(edges, n):
    both = torch.cat([edges, edges.flip(0), torch.arange(n).repeat(2, 1)], 1)
    deg = torch.bincount(both[0], minlength=n).float()
    weight = (deg[both[0]] * deg[both[1]]).rsqrt()
    return torch.sparse_coo_tensor(both, weight, (n, n), check_invariants=False).coalesce()


class GCN(nn.Module):
    def __init__(self, n_in, hidden, n_out, p):
        super().__init__()
        self.lin1 = nn.Linear(n_in, hidden)
        self.lin2 = nn.Linear(hidden, n_out)
        self.p = p

    def forward(self, x, adj):
        h = F.dropout(x, self.p, self.training)
        h = F.relu(torch.sparse.mm(adj, self.lin1(h)))
        h = F.dropout(h, self.p, self.training)
        return torch.sparse.mm(adj, self.lin2(h))


def main(folder):
    cfg = json.loads((folder / "config.json").read_text())
    torch.manual_seed(cfg["seed"])
    x = torch.from_numpy(np.load(folder / "features.npy")).float()
    x = x / x.sum(1, keepdim=True).clamp(min=1)
    y = torch.from_numpy(np.load(folder / "topics.npy")).long()
    edges = read_edges(folder / "citations.csv")
    adj = normalized_adjacency(edges, len(x))

    order = torch.randperm(len(x))
    n_train = int(cfg["train_fraction"] * len(x))
    train, val = order[:n_train], order[n_train:]

    model = GCN(x.shape[1], cfg["hidden"], int(y.max()) + 1, cfg["dropout"])
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"], weight_decay=cfg["weight_decay"])
    for epoch in range(1, cfg["epochs"] + 1):
        model.train()
        loss = F.cross_entropy(model(x, adj)[train], y[train])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if epoch % 25 == 0:
            model.eval()
            with torch.no_grad():
                hit = model(x, adj).argmax(1) == y
            print(f"epoch {epoch} loss {loss.item():.3f} train {hit[train].float().mean():.3f} "
                  f"val {hit[val].float().mean():.3f}")
    print(f"validation accuracy {hit[val].float().mean().item():.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
