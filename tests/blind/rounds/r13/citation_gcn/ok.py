"""Two-layer GCN on a stochastic block model with noisy node features."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

N, K, D = 600, 5, 24


def build_graph(seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, N)
    p = np.where(y[:, None] == y[None], 0.045, 0.006)
    upper = np.triu(rng.random((N, N)) < p, 1)
    A = (upper | upper.T).astype(np.float32)
    centre = rng.normal(0, 1, (K, D))
    x = 0.5 * centre[y] + rng.normal(0, 1.2, (N, D))
    return torch.from_numpy(A), torch.from_numpy(x).float(), torch.from_numpy(y)


def normalise(A):
    A = A + torch.eye(N)
    d = A.sum(1).rsqrt()
    return d[:, None] * A * d[None]


class GCN(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.w1 = nn.Linear(D, hidden)
        self.w2 = nn.Linear(hidden, K)
        self.drop = nn.Dropout(0.5)

    def forward(self, A, x):
        h = F.relu(A @ self.w1(self.drop(x)))
        return A @ self.w2(self.drop(h))


def split_masks(y, per_class=20, seed=0):
    g = torch.Generator().manual_seed(seed)
    perm = torch.randperm(N, generator=g)
    train = torch.zeros(N, dtype=torch.bool)
    for c in range(K):
        members = perm[y[perm] == c]
        train[members[:per_class]] = 1
    return train


def main():
    torch.manual_seed(0)
    A, x, y = build_graph()
    A = normalise(A)
    train_mask = split_masks(y)
    held_out = torch.nonzero(train_mask == 0).flatten()
    model = GCN()
    opt = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for epoch in range(250):
        model.train()
        out = model(A, x)
        loss = F.cross_entropy(out[train_mask], y[train_mask])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if epoch % 50 == 49:
            print(f"epoch {epoch + 1} loss {loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        pred = model(A, x).argmax(1)
    print("final test accuracy", (pred[held_out] == y[held_out]).float().mean().item())


if __name__ == "__main__":
    main()
