"""Topic of papers in a citation graph: two-layer graph convolution, full batch."""
import argparse
import os
import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("--hidden", type=int, default=32)
parser.add_argument("--epochs", type=int, default=150)
parser.add_argument("--lr", type=float, default=0.01)
parser.add_argument("--dropout", type=float, default=0.5)


def read_papers(path, n_words=60):
    roles, topics, rows = [], [], []
    with open(path) as fh:
        for line in fh:
            role, topic, words = line.rstrip("\n").split("\t")
            bag = torch.zeros(n_words)
            bag[[int(w) for w in words.split()]] = 1.0
            roles.append(role)
            topics.append(topic)
            rows.append(bag / bag.sum().clamp(min=1))
    names = sorted(set(topics))
    y = torch.tensor([names.index(t) for t in topics])
    masks = {r: torch.tensor([x == r for x in roles]) for r in ("train", "val", "test")}
    return torch.stack(rows), y, masks, names


def read_adjacency(path, n):
    """Symmetric normalised adjacency with self loops."""
    adj = torch.eye(n)
    with open(path) as fh:
        for line in fh:
            a, b = map(int, line.split())
            adj[a, b] = adj[b, a] = 1.0
    inv_sqrt = adj.sum(1).rsqrt()
    return inv_sqrt[:, None] * adj * inv_sqrt[None, :]


class GCN(nn.Module):
    def __init__(self, n_in, hidden, n_out, dropout):
        super().__init__()
        self.first, self.second = nn.Linear(n_in, hidden), nn.Linear(hidden, n_out)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, adj):
        h = F.relu(adj @ self.first(x))
        return adj @ self.second(self.dropout(h))


@torch.no_grad()
def accuracy(model, x, adj, y, mask):
    model.eval()
    return (model(x, adj).argmax(1) == y)[mask].float().mean().item()


def main():
    args = parser.parse_args()
    torch.manual_seed(1)
    x, y, masks, names = read_papers(os.path.join(args.folder, "papers.tsv"))
    adj = read_adjacency(os.path.join(args.folder, "cites.txt"), len(x))
    print(f"{len(x)} papers, {len(names)} topics, {int(((adj > 0).sum() - len(x)) / 2)} links, {int(masks['train'].sum())} labelled")

    model = GCN(x.shape[1], args.hidden, len(names), args.dropout)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=5e-4)
    best_val, best_state = -1.0, None
    for epoch in range(1, args.epochs + 1):
        model.train()
        loss = F.cross_entropy(model(x, adj)[masks["train"]], y[masks["train"]])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        val = accuracy(model, x, adj, y, masks["val"])
        if val > best_val:
            best_val, best_state = val, {k: v.clone() for k, v in model.state_dict().items()}
        if epoch % 30 == 0:
            train = accuracy(model, x, adj, y, masks["train"])
            print(f"epoch {epoch}  loss {loss.item():.4f}  train acc {train:.3f}  val acc {val:.3f}")
    model.load_state_dict(best_state)
    print(f"test accuracy {accuracy(model, x, adj, y, masks['test']):.3f}")


if __name__ == "__main__":
    main()
