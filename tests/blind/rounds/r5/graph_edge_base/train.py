"""Mean-aggregation network over an undirected edge list. FOLDER: nodes.npz, edges.txt"""
import pathlib
import sys
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F


class Graph:
    def __init__(self, folder):
        with np.load(folder / "nodes.npz") as nodes:
            self.x, self.y = torch.from_numpy(nodes["x"]), torch.from_numpy(nodes["y"])
            self.train, self.valid = torch.from_numpy(nodes["train"]), torch.from_numpy(nodes["valid"])
        edges = np.loadtxt(folder / "edges.txt", dtype=np.int64)
        both = np.concatenate([edges, edges[:, ::-1]])
        self.src, self.dst = torch.from_numpy(both[:, 0].copy()), torch.from_numpy(both[:, 1].copy())
        n = len(self.x)
        self.degree = torch.bincount(self.dst, minlength=n).clamp(min=1).float().unsqueeze(1)

    def neighbours(self, h):
        total = torch.zeros(len(self.x), h.shape[1]).index_add(0, self.dst, h[self.src])
        return total / self.degree


class SageLayer(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.own, self.other = nn.Linear(n_in, n_out), nn.Linear(n_in, n_out, bias=False)

    def forward(self, graph, h):
        return self.own(h) + self.other(graph.neighbours(h))


class Sage(nn.Module):
    def __init__(self, n_in, hidden, n_out):
        super().__init__()
        self.first, self.second = SageLayer(n_in, hidden), SageLayer(hidden, n_out)
        self.dropout = nn.Dropout(0.3)

    def forward(self, graph):
        return self.second(graph, self.dropout(F.relu(self.first(graph, graph.x))))


def main(folder):
    torch.manual_seed(61)
    graph = Graph(folder)
    model = Sage(graph.x.shape[1], 24, int(graph.y.max()) + 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4)
    for epoch in range(80):
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(graph)[graph.train], graph.y[graph.train])
        loss.backward()
        optimizer.step()
        if epoch % 10 == 9:
            model.eval()
            with torch.no_grad():
                hit = (model(graph).argmax(1) == graph.y).float()
            print(f"epoch {epoch} loss {loss.item():.4f} train {hit[graph.train].mean():.3f} valid {hit[graph.valid].mean():.3f}")
    print(f"valid accuracy {hit[graph.valid].mean():.3f}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
