"""Two-layer GCN (Kipf & Welling) on a citation graph, full batch."""
import copy
import json
import os
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def load_graph(root):
    x = torch.from_numpy(np.load(os.path.join(root, "features.npy"))).float()
    x = x / x.sum(1, keepdim=True).clamp(min=1)
    y = torch.from_numpy(np.load(os.path.join(root, "labels.npy")))
    edges = torch.from_numpy(np.loadtxt(os.path.join(root, "edges.csv"), delimiter=",", dtype=np.int64)).t()
    with open(os.path.join(root, "split.json")) as f:
        split = {k: torch.tensor(v) for k, v in json.load(f).items()}
    return x, y, edges, split


def normalized_adjacency(edges, n):
    loops = torch.arange(n).repeat(2, 1)
    idx = torch.cat([edges, edges.flip(0), loops], 1)
    deg = torch.zeros(n).index_add_(0, idx[0], torch.ones(idx.size(1)))
    w = deg[idx[0]].rsqrt() * deg[idx[1]].rsqrt()
    return torch.sparse_coo_tensor(idx, w, (n, n), check_invariants=True).coalesce()


class GraphConv(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(d_in, d_out))
        self.bias = nn.Parameter(torch.zeros(d_out))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x, adj):
        return torch.sparse.mm(adj, x @ self.weight) + self.bias


class GCN(nn.Module):
    def __init__(self, d_in, hidden, n_class, dropout):
        super().__init__()
        self.conv1 = GraphConv(d_in, hidden)
        self.conv2 = GraphConv(hidden, n_class)
        self.dropout = dropout

    def forward(self, x, adj):
        x = F.dropout(x, self.dropout, self.training)
        h = F.relu(self.conv1(x, adj))
        h = F.dropout(h, self.dropout, self.training)
        return self.conv2(h, adj)


def accuracy(logits, y, idx):
    return (logits[idx].argmax(1) == y[idx]).float().mean().item()


def main(root, epochs=300, lr=0.01, hidden=64, dropout=0.5, weight_decay=5e-4):
    torch.manual_seed(42)
    x, y, edges, split = load_graph(root)
    adj = normalized_adjacency(edges, len(x))
    model = GCN(x.size(1), hidden, int(y.max()) + 1, dropout)
    opt = torch.optim.Adam(model.parameters(), lr=lr, weight_decay=weight_decay)
    best_val, best_state = 0.0, None
    for epoch in range(1, epochs + 1):
        model.train()
        loss = F.cross_entropy(model(x, adj)[split["train"]], y[split["train"]])
        opt.zero_grad()
        loss.backward()
        opt.step()
        model.eval()
        with torch.no_grad():
            logits = model(x, adj)
        val = accuracy(logits, y, split["val"])
        if val > best_val:
            best_val, best_state = val, copy.deepcopy(model.state_dict())
        if epoch % 50 == 0:
            print(f"epoch {epoch} loss {loss.item():.4f} train {accuracy(logits, y, split['train']):.4f} val {val:.4f}")
    model.load_state_dict(best_state)
    model.eval()
    with torch.no_grad():
        test = accuracy(model(x, adj), y, split["test"])
    print(f"best val {best_val:.4f} test {test:.4f}")


if __name__ == "__main__":
    main(sys.argv[1])
