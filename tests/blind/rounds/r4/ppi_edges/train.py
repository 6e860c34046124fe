"""GCN on a protein interaction graph: python train.py FOLDER"""
import sys
from pathlib import Path
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

folder = Path(__file__).parent / sys.argv[1]
torch.manual_seed(0)


def load_graph():
    nodes = np.load(folder / "nodes.npz")
    x = torch.from_numpy(nodes["features"].astype(np.float32))
    y = torch.from_numpy(nodes["label"].astype(np.int64))
    split = torch.from_numpy(nodes["split"].astype(np.int64))
    edges = np.loadtxt(folder / "edges.tsv", dtype=np.int64, delimiter="\t")
    adj = torch.eye(len(x))
    adj[edges[:, 0], edges[:, 1]] = 1
    adj[edges[:, 1], edges[:, 0]] = 1
    d = adj.sum(1).rsqrt()
    print(f"{len(x)} proteins, {len(edges)} interactions")
    return x, y, split, (d[:, None] * adj * d).to_sparse()


class GCN(nn.Module):
    def __init__(self, d, hidden, k):
        super().__init__()
        self.w1, self.w2 = nn.Linear(d, hidden), nn.Linear(hidden, k)
        self.drop = nn.Dropout(0.4)

    def forward(self, x, a):
        h = F.relu(torch.sparse.mm(a, self.w1(self.drop(x))))
        return torch.sparse.mm(a, self.w2(self.drop(h)))


def main():
    x, y, split, adj = load_graph()
    train, val, test = split == 0, split == 1, split == 2
    model = GCN(x.size(1), 32, int(y.max()) + 1)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-3)
    best = (0.0, 0.0)
    for epoch in range(120):
        model.train()
        loss = F.cross_entropy(model(x, adj)[train], y[train])
        opt.zero_grad()
        loss.backward()
        opt.step()
        model.eval()
        with torch.no_grad():
            hit = (model(x, adj).argmax(1) == y).float()
        acc_val, acc_test = hit[val].mean().item(), hit[test].mean().item()
        if acc_val > best[0]:
            best = (acc_val, acc_test)
        if epoch % 20 == 0:
            print(f"epoch {epoch:3d} loss {loss.item():.4f} val acc {acc_val:.3f}")
    print(f"best val acc {best[0]:.3f} test acc {best[1]:.3f}")


if __name__ == "__main__":
    main()
