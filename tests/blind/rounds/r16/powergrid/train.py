"""Control zone of substations with a two-layer graph convolution."""
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F


def load_grid(folder):
    feats, zone, part = [], [], []
    for line in open(f"{folder}/stations.csv"):
        cells = line.strip().split(",")
        feats.append([float(c) for c in cells[:-2]])
        zone.append(int(cells[-2]))
        part.append(cells[-1])
    pairs = [tuple(map(int, line.split())) for line in open(f"{folder}/lines.txt")]
    return torch.tensor(feats), torch.tensor(zone), part, torch.tensor(pairs)


def normalised_adjacency(pairs, n):
    a = torch.eye(n)
    a[pairs[:, 0], pairs[:, 1]] = 1.0
    a[pairs[:, 1], pairs[:, 0]] = 1.0
    d = a.sum(1).rsqrt()
    return d[:, None] * a * d[None, :]


class GCN(nn.Module):
    def __init__(self, n_in, n_hidden, n_out):
        super().__init__()
        self.w1 = nn.Linear(n_in, n_hidden)
        self.w2 = nn.Linear(n_hidden, n_out)

    def forward(self, adj, x):
        h = F.relu(adj @ self.w1(x))
        h = F.dropout(h, 0.3, self.training)
        return adj @ self.w2(h)


def main(folder):
    torch.manual_seed(28)
    x, zone, part, pairs = load_grid(folder)
    adj = normalised_adjacency(pairs, len(x))
    train = torch.tensor([p == "train" for p in part])
    test = torch.tensor([p == "test" for p in part])
    net = GCN(x.shape[1], 16, 5)
    opt = torch.optim.Adam(net.parameters(), lr=2e-2, weight_decay=5e-4)
    for epoch in range(1, 81):
        net.train()
        loss = F.cross_entropy(net(adj, x)[train], zone[train])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if epoch % 20 == 0:
            net.eval()
            with torch.no_grad():
                acc = (net(adj, x).argmax(1) == zone)[test].float().mean().item()
            print(f"epoch {epoch} loss {loss.item():.3f} test accuracy {acc:.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
