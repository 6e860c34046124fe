"""Graph classification of small molecule-like graphs: does the graph contain enough bonded pairs."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

ELEMENTS = 4


def make_graph(rng):
    n = int(rng.integers(8, 15))
    kinds = rng.integers(0, ELEMENTS, n)
    label = int(rng.integers(0, 2))
    edges = {(i, int(rng.integers(max(0, i - 4), i))) for i in range(1, n)}
    wanted = 0 if label else 1
    for _ in range(40):
        a, b = rng.integers(0, n, 2)
        if len(edges) >= n + 4:
            break
        alike = int(kinds[a] % 2 == kinds[b] % 2)
        if a != b and (alike != wanted or rng.random() < 0.1):
            edges.add((int(max(a, b)), int(min(a, b))))
    e = np.array(sorted(edges)).T
    e = np.concatenate([e, e[::-1]], axis=1)
    return {"x": np.eye(ELEMENTS, dtype=np.float32)[kinds], "edges": e, "y": label}


def collate(graphs):
    xs, edges, owner = [], [], []
    count = 0
    for i, g in enumerate(graphs):
        xs.append(torch.from_numpy(g["x"]))
        edges.append(torch.from_numpy(g["edges"]) + count)
        owner.append(torch.full((len(g["x"]),), i))
        count += len(g["x"])
    return {"x": torch.cat(xs), "edges": torch.cat(edges, dim=1), "owner": torch.cat(owner),
            "y": torch.tensor([g["y"] for g in graphs]), "n_graphs": len(graphs), "n_nodes": count}


class MeanConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.own = nn.Linear(cin, cout)
        self.other = nn.Linear(cin, cout, bias=False)

    def forward(self, x, edges):
        src, dst = edges
        summed = torch.zeros_like(x).index_add_(0, dst, x[src])
        degree = torch.zeros(len(x)).index_add_(0, dst, torch.ones(len(dst))).clamp(min=1)
        return torch.relu(self.own(x) + self.other(summed / degree[:, None]))


class GraphNet(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.c1 = MeanConv(ELEMENTS, hidden)
        self.c2 = MeanConv(hidden, hidden)
        self.head = nn.Linear(hidden, 2)

    def forward(self, b):
        h = self.c2(self.c1(b["x"], b["edges"]), b["edges"])
        pooled = torch.zeros(b["n_graphs"], h.shape[1]).index_add_(0, b["owner"], h)
        size = torch.bincount(b["owner"], minlength=b["n_graphs"])
        return self.head(pooled / size[:, None])


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    pairs = [(model(b).argmax(1), b["y"]) for b in loader]
    return torch.cat([(p == y).float() for p, y in pairs]).mean().item()


def main(epochs=8):
    torch.manual_seed(5)
    rng = np.random.default_rng(5)
    graphs = [make_graph(rng) for _ in range(1500)]
    train = DataLoader(graphs[:1100], batch_size=32, shuffle=True, collate_fn=collate)
    test = DataLoader(graphs[1100:], batch_size=32, collate_fn=collate)
    model = GraphNet()
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for b in train:
            loss = nn.functional.cross_entropy(model(b), b["y"])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(train):.4f}")
    print(f"test_acc={accuracy(model, test):.4f}")


if __name__ == "__main__":
    main()
