"""Graph classification of small interaction graphs with a message passing network."""
import random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

N_TYPES = 4


def random_graph(rng, label):
    """Class 1: neighbours tend to be of the same type; class 0: of another type."""
    n = rng.randint(10, 16)
    types = [rng.randrange(N_TYPES) for _ in range(n)]
    edges = set()
    while len(edges) < 2 * n:
        a, b = rng.sample(range(n), 2)
        same = types[a] == types[b]
        keep = 0.9 if same == bool(label) else 0.25
        if rng.random() < keep:
            edges.add((min(a, b), max(a, b)))
    edge = torch.tensor(sorted(edges)).t()
    edge = torch.cat([edge, edge.flip(0)], 1)
    return {"x": F.one_hot(torch.tensor(types), N_TYPES).float(), "edge": edge, "y": label}


def collate(graphs):
    """Disjoint union of the graphs of a batch."""
    xs, edges, owner, offset = [], [], [], 0
    for g_id, g in enumerate(graphs):
        xs.append(g["x"])
        edges.append(g["edge"] + offset)
        owner.append(torch.full((len(g["x"]),), g_id))
        offset += len(g["x"])
    y = torch.tensor([g["y"] for g in graphs])
    return torch.cat(xs), torch.cat(edges, 1), torch.cat(owner), y


class Layer(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.own = nn.Linear(n_in, n_out)
        self.neighbour = nn.Linear(n_in, n_out, bias=False)

    def forward(self, x, edge):
        src, dst = edge
        summed = torch.zeros_like(x).index_add(0, dst, x[src])
        degree = torch.zeros(len(x)).index_add(0, dst, torch.ones(len(dst))).clamp(min=1)
        return F.relu(self.own(x) + self.neighbour(summed / degree[:, None]))


class GraphNet(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.layers = nn.ModuleList([Layer(N_TYPES, hidden), Layer(hidden, hidden)])
        self.readout = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 2))

    def forward(self, x, edge, owner, n_graphs):
        for layer in self.layers:
            x = layer(x, edge)
        pooled = torch.zeros(n_graphs, x.shape[1]).index_add(0, owner, x)
        size = torch.bincount(owner, minlength=n_graphs).clamp(min=1)
        return self.readout(pooled / size[:, None])


def run_epoch(model, graphs, batch_size, optimizer=None):
    training = optimizer is not None
    model.train(training)
    order = torch.randperm(len(graphs)).tolist() if training else list(range(len(graphs)))
    total = hits = 0.0
    with torch.set_grad_enabled(training):
        for i in range(0, len(order), batch_size):
            x, edge, owner, y = collate([graphs[j] for j in order[i:i + batch_size]])
            logits = model(x, edge, owner, len(y))
            loss = F.cross_entropy(logits, y)
            if training:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            total += loss.item() * len(y)
            hits += (logits.argmax(1) == y).sum().item()
    return total / len(graphs), hits / len(graphs)


def main():
    torch.manual_seed(7)
    np.random.seed(7)
    rng = random.Random(7)
    graphs = [random_graph(rng, i % 2) for i in range(1000)]
    rng.shuffle(graphs)
    train, val, test = graphs[:700], graphs[700:850], graphs[850:]
    model = GraphNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(7):
        loss, acc = run_epoch(model, train, 32, optimizer)
        val_loss, val_acc = run_epoch(model, val, 32)
        print(f"epoch {epoch}  train {loss:.4f} acc {acc:.3f}  val {val_loss:.4f} acc {val_acc:.3f}")
    print(f"test accuracy {run_epoch(model, test, 32)[1]:.3f}")


if __name__ == "__main__":
    main()
