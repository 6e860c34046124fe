import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

NODES, CLASSES, WORDS = 600, 4, 120


def citation_graph(rng):
    y = rng.integers(0, CLASSES, NODES)
    same = y[:, None] == y[None, :]
    link = rng.random((NODES, NODES)) < np.where(same, 0.016, 0.003)
    link = np.triu(link, 1)
    adj = (link | link.T).astype(np.float32)
    topic = rng.random((CLASSES, WORDS)) < 0.12
    x = rng.random((NODES, WORDS)) < np.where(topic[y], 0.18, 0.07)
    return adj, x.astype(np.float32), y


def normalise(adj):
    a = adj + np.eye(len(adj), dtype=np.float32)
    d = 1 / np.sqrt(a.sum(1))
    return torch.from_numpy(a * d[:, None] * d[None, :])


class GCN(nn.Module):
    def __init__(self, hidden=32, dropout=0.4):
        super().__init__()
        self.lin1, self.lin2 = nn.Linear(WORDS, hidden), nn.Linear(hidden, CLASSES)
        self.dropout = dropout

    def forward(self, a, x):
        h = F.relu(a @ self.lin1(x))
        h = F.dropout(h, self.dropout, self.training)
        return a @ self.lin2(h)


def masks(rng):
    order = torch.from_numpy(rng.permutation(NODES))
    out = []
    for part in (order[:200], order[200:350], order[350:]):
        m = torch.zeros(NODES, dtype=torch.bool)
        m[part] = True
        out.append(m)
    return out


def main():
    torch.manual_seed(19)
    rng = np.random.default_rng(19)
    adj, x, y = citation_graph(rng)
    a, x, y = normalise(adj), torch.from_numpy(x), torch.from_numpy(y)
    train_mask, valid_mask, test_mask = masks(rng)
    model = GCN()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-3)
    for epoch in range(50):
        model.train()
        optimizer.zero_grad()
        logits = model(a, x)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        optimizer.step()
        if epoch % 10 == 9:
            model.eval()
            with torch.no_grad():
                hit = model(a, x).argmax(1) == y
            print(f"epoch {epoch} loss {loss.item():.4f} train {hit[train_mask].float().mean():.3f} valid {hit[valid_mask].float().mean():.3f}")
    print(f"test accuracy {hit[test_mask].float().mean():.3f}")


if __name__ == "__main__":
    main()
