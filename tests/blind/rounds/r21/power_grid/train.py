"""Which buses of a transmission grid overload under stress?  Graph network over the line table."""
import csv
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F


def read_grid(folder):
    with open(os.path.join(folder, "buses.csv"), newline="") as f:
        buses = list(csv.DictReader(f))
    with open(os.path.join(folder, "lines.csv"), newline="") as f:
        pairs = [(int(r["from_bus"]), int(r["to_bus"])) for r in csv.DictReader(f)]
    load = torch.tensor([float(b["load_mw"]) for b in buses])
    gen = torch.tensor([float(b["generation_mw"]) for b in buses])
    kv = torch.tensor([float(b["voltage_kv"]) for b in buses])
    x = torch.stack([load, gen, (gen > 0).float(), kv == 220, kv == 380], dim=1)
    y = torch.tensor([int(b["overloaded"]) for b in buses])
    is_train = torch.tensor([b["part"] == "train" for b in buses])
    x = (x - x[is_train].mean(0)) / x[is_train].std(0)
    return x, y, is_train, pairs


def mean_adjacency(pairs, n):
    """Sparse matrix that averages over the neighbours of a bus."""
    a = torch.tensor(pairs).t()
    index = torch.cat([a, a.flip(0)], dim=1)
    degree = torch.zeros(n).index_add(0, index[0], torch.ones(index.shape[1]))
    values = 1.0 / degree[index[0]]
    return index, values, degree


class SageLayer(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.own = nn.Linear(n_in, n_out)
        self.neigh = nn.Linear(n_in, n_out, bias=False)

    def forward(self, h, index, values):
        gathered = torch.zeros_like(h).index_add(0, index[0], h[index[1]] * values[:, None])
        return self.own(h) + self.neigh(gathered)


class GridNet(nn.Module):
    def __init__(self, n_in, width=32, dropout=0.2):
        super().__init__()
        self.layer1 = SageLayer(n_in, width)
        self.layer2 = SageLayer(width, width)
        self.out = nn.Linear(width, 2)
        self.dropout = dropout

    def forward(self, x, index, values):
        h = F.relu(self.layer1(x, index, values))
        h = F.dropout(h, self.dropout, self.training)
        h = F.relu(self.layer2(h, index, values))
        h = F.dropout(h, self.dropout, self.training)
        return self.out(h)


def main():
    torch.manual_seed(23)
    x, y, is_train, pairs = read_grid(sys.argv[1])
    index, values, degree = mean_adjacency(pairs, len(x))
    x = torch.cat([x, ((degree - degree.mean()) / degree.std())[:, None]], dim=1)
    print(f"{len(x)} buses, {len(pairs)} lines, mean degree {degree.mean():.2f}")

    model = GridNet(x.shape[1])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4)
    val = ~is_train
    for epoch in range(1, 121):
        model.train()
        loss = F.cross_entropy(model(x, index, values)[is_train], y[is_train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if epoch % 20 == 0:
            model.eval()
            with torch.no_grad():
                pred = model(x, index, values).argmax(1)
            train_acc = (pred == y)[is_train].float().mean().item()
            val_acc = (pred == y)[val].float().mean().item()
            print(f"epoch {epoch:3d}  loss {loss.item():.4f}  train acc {train_acc:.3f}  val acc {val_acc:.3f}")

    caught = (pred[val] & y[val]).sum().item() / y[val].sum().item()
    print(f"overloaded buses found {caught:.3f}, final val accuracy {val_acc:.4f}")


if __name__ == "__main__":
    main()
