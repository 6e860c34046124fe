"""Semi-supervised node classification with a two-layer GCN."""
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F


def make_graph(n, k, dim, p_in, p_out, gen):
    y = torch.randint(0, k, (n,), generator=gen)
    same = y[:, None] == y[None, :]
    prob = torch.where(same, torch.tensor(p_in), torch.tensor(p_out))
    upper = torch.triu((torch.rand(n, n, generator=gen) < prob).float(), 1)
    adj = upper + upper.T
    centers = torch.randn(k, dim, generator=gen)
    x = 0.35 * centers[y] + torch.randn(n, dim, generator=gen)
    return x, y, adj


def normalize(adj):
    a = adj + torch.eye(adj.size(0))
    d = a.sum(1).rsqrt()
    return d[:, None] * a * d[None, :]


class GCN(nn.Module):
    def __init__(self, dim, hidden, k, dropout):
        super().__init__()
        self.lin1 = nn.Linear(dim, hidden)
        self.lin2 = nn.Linear(hidden, k)
        self.dropout = dropout

    def forward(self, x, a):
        x = F.dropout(x, self.dropout, self.training)
        h = F.relu(a @ self.lin1(x))
        h = F.dropout(h, self.dropout, self.training)
        return a @ self.lin2(h)


@torch.no_grad()
def accuracy(model, x, a, y, mask):
    model.eval()
    pred = model(x, a).argmax(1)
    return (pred[mask] == y[mask]).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=200)
    ap.add_argument("--hidden", type=int, default=64)
    ap.add_argument("--lr", type=float, default=1e-2)
    ap.add_argument("--seed", type=int, default=0)
    args = ap.parse_args()

    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    x, y, adj = make_graph(700, 5, 64, 0.012, 0.0035, gen)
    a = normalize(adj)
    perm = torch.randperm(x.size(0), generator=gen)
    train_idx, val_idx, test_idx = perm[:150], perm[150:300], perm[300:]
    masks = {}
    for name, idx in (("train", train_idx), ("val", val_idx), ("test", test_idx)):
        masks[name] = torch.zeros(x.size(0), dtype=torch.bool)
        masks[name][idx] = True

    model = GCN(x.size(1), args.hidden, 5, dropout=0.5)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=5e-4)
    best_val, best_test = 0.0, 0.0
    for epoch in range(args.epochs):
        model.train()
        opt.zero_grad()
        logits = model(x, a)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        opt.step()
        val = accuracy(model, x, a, y, masks["val"])
        if val > best_val:
            best_val, best_test = val, accuracy(model, x, a, y, masks["test"])
        if epoch % 20 == 0:
            print(f"epoch {epoch:3d} loss {loss.item():.4f} val {val:.3f}")
    print(f"best val {best_val:.3f} test accuracy {best_test:.3f}")


if __name__ == "__main__":
    main()
