import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn


def read_graph(folder):
    nodes = np.load(folder / "nodes.npz")
    edges = pd.read_csv(folder / "citations.csv")
    src, dst = edges["citing"].to_numpy(), edges["cited"].to_numpy()
    n = len(nodes["topic"])
    both = np.concatenate([np.stack([src, dst]), np.stack([dst, src]), np.tile(np.arange(n), (2, 1))], axis=1)
    both = np.unique(both, axis=1)
    degree = np.bincount(both[0], minlength=n)
    weight = 1.0 / np.sqrt(degree[both[0]] * degree[both[1]])
    adjacency = torch.sparse_coo_tensor(torch.from_numpy(both), torch.from_numpy(weight).float(), (n, n)).coalesce()
    return nodes, adjacency


class GraphConv(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.lin = nn.Linear(d_in, d_out)

    def forward(self, x, adjacency):
        return torch.sparse.mm(adjacency, self.lin(x))


class PaperNet(nn.Module):
    def __init__(self, d_in, hidden, n_out, dropout):
        super().__init__()
        self.g1, self.g2 = GraphConv(d_in, hidden), GraphConv(hidden, n_out)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, adjacency):
        h = torch.relu(self.g1(self.drop(x), adjacency))
        return self.g2(self.drop(h), adjacency)


def accuracy(model, x, adjacency, y, rows):
    model.eval()
    with torch.no_grad():
        return (model(x, adjacency)[rows].argmax(1) == y[rows]).float().mean().item()


def main(folder):
    cfg = json.loads((folder / "gcn.json").read_text())
    torch.manual_seed(cfg["seed"])
    nodes, adjacency = read_graph(folder)
    words = torch.from_numpy(nodes["words"]).float()
    x = words / words.sum(1, keepdim=True).clamp(min=1)
    y = torch.from_numpy(nodes["topic"]).long()
    split = {k: torch.from_numpy(nodes[k]) for k in ("train", "valid", "test")}
    model = PaperNet(x.shape[1], cfg["hidden"], int(y.max()) + 1, cfg["dropout"])
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"], weight_decay=cfg["weight_decay"])
    best, kept, waited = 0.0, None, 0
    for epoch in range(1, cfg["epochs"] + 1):
        model.train()
        logits = model(x, adjacency)
        loss = nn.functional.cross_entropy(logits[split["train"]], y[split["train"]])
        opt.zero_grad()
        loss.backward()
        opt.step()
        valid = accuracy(model, x, adjacency, y, split["valid"])
        waited += 1
        if valid > best:
            best, kept, waited = valid, {k: v.clone() for k, v in model.state_dict().items()}, 0
        if epoch % 20 == 0:
            print(f"epoch {epoch} loss {loss.item():.4f} valid acc {valid:.4f}")
        if waited > cfg["patience"]:
            break
    model.load_state_dict(kept)
    print(f"test acc {accuracy(model, x, adjacency, y, split['test']):.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
